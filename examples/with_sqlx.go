// Snowflake keys with sqlx and the driver lib/pq. PGHOST and the like name the server.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// A key is an int64, which is exact. In JSON it is a string, since JavaScript rounds large
// numbers.
type Order struct {
	ID    int64       `db:"id" json:"id,string"`
	Item  string      `db:"item" json:"item"`
	Lines []OrderLine `db:"-" json:"lines"`
}

type OrderLine struct {
	ID      int64  `db:"id" json:"id,string"`
	OrderID int64  `db:"order_id" json:"orderId,string"`
	Note    string `db:"note" json:"note"`
}

const tables = `
	CREATE TABLE orders (
		id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
		item text NOT NULL
	);
	CREATE TABLE order_lines (
		id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
		order_id bigint NOT NULL REFERENCES orders,
		note text NOT NULL
	)`

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Print a word and these keys.
func print(word string, ids []int64) {
	fmt.Println(word, strings.Trim(fmt.Sprint(ids), "[]"))
}

func main() {
	db := sqlx.MustConnect("postgres", "sslmode=disable")
	defer db.Close()
	db.MustExec(tables)

	// One row, and rows that refer to it. lib/pq has no LastInsertId(), so let the statement
	// return the key.
	order := Order{Item: "book"}
	tx := db.MustBegin()
	check(tx.Get(&order.ID, "INSERT INTO orders (item) VALUES ($1) RETURNING id", order.Item))
	check(tx.Select(&order.Lines, `
		INSERT INTO order_lines (order_id, note) SELECT $1, unnest($2::text[])
		RETURNING *`, order.ID, pq.Array([]string{"wrap it", "quickly"})))
	check(tx.Commit())
	print("inserted", []int64{order.ID})
	for _, line := range order.Lines {
		fmt.Println("line", line.ID, "of", line.OrderID)
	}
	text, err := json.Marshal(order)
	check(err)
	fmt.Println("json", string(text))

	// many rows: in one statement the order of the keys is that of the rows
	items := make([]string, 1000)
	for n := range items {
		items[n] = fmt.Sprint("item ", n)
	}
	var bulk []int64
	check(db.Select(&bulk, "INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id", pq.Array(items)))
	print("bulk", bulk)

	// page by page: each page begins after the last key of the page before
	for last := int64(0); ; {
		var page []int64
		check(db.Select(&page, "SELECT id FROM orders WHERE id > $1 ORDER BY id LIMIT 300", last))
		if len(page) == 0 {
			break
		}
		print("page", page)
		last = page[len(page)-1]
	}
}
