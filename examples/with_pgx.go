// Snowflake keys with pgx. PGHOST and the like name the server.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/jackc/pgx/v4"
)

// A key is an int64, which is exact. In JSON it is a string, since JavaScript rounds large
// numbers.
type Order struct {
	ID    int64       `json:"id,string"`
	Item  string      `json:"item"`
	Lines []OrderLine `json:"lines"`
}

type OrderLine struct {
	ID      int64  `json:"id,string"`
	OrderID int64  `json:"orderId,string"`
	Note    string `json:"note"`
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

// Return the keys that a query yields.
func keys(ctx context.Context, conn *pgx.Conn, query string, args ...interface{}) (ids []int64) {
	rows, err := conn.Query(ctx, query, args...)
	check(err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		check(rows.Scan(&id))
		ids = append(ids, id)
	}
	check(rows.Err())
	return ids
}

// Print a word and these keys.
func print(word string, ids []int64) {
	fmt.Println(word, strings.Trim(fmt.Sprint(ids), "[]"))
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "")
	check(err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, tables)
	check(err)

	// one row, and rows that refer to it
	order := Order{Item: "book"}
	check(conn.BeginFunc(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "INSERT INTO orders (item) VALUES ($1) RETURNING id", order.Item).Scan(&order.ID)
		for _, note := range []string{"wrap it", "quickly"} {
			line := OrderLine{OrderID: order.ID, Note: note}
			if err == nil {
				err = tx.QueryRow(ctx, "INSERT INTO order_lines (order_id, note) VALUES ($1, $2) RETURNING id",
					line.OrderID, line.Note).Scan(&line.ID)
				order.Lines = append(order.Lines, line)
			}
		}
		return err
	}))
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
	print("bulk", keys(ctx, conn, "INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id", items))

	// page by page: each page begins after the last key of the page before
	for last := int64(0); ; {
		page := keys(ctx, conn, "SELECT id FROM orders WHERE id > $1 ORDER BY id LIMIT 300", last)
		if len(page) == 0 {
			break
		}
		print("page", page)
		last = page[len(page)-1]
	}
}
