#!/usr/bin/env ruby
# Snowflake keys with Rails' Active Record. PGHOST and the like name the server.
require "active_record"
require "active_record/fixtures"
require "stringio"
require "tmpdir"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
  database: ENV["PGDATABASE"], username: ENV["PGUSER"])
ActiveRecord::Migration.verbose = false

# Without "id: :bigint" Rails makes a bigserial. A lambda makes the default an SQL
# expression, and not a text. snowflake_generate() is another name of snowflake_nextval():
# Rails takes a default with "nextval" in it for that of a sequence, and cannot load
# fixtures.
class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    enable_extension "snowflake"
    create_table :orders, id: :bigint, default: -> { "snowflake_generate()" } do |t|
      t.text :item, null: false
    end
    create_table :order_lines, id: :bigint, default: -> { "snowflake_generate()" } do |t|
      t.references :order, null: false, foreign_key: true
      t.text :note, null: false
    end
  end
end

class Order < ActiveRecord::Base
  has_many :order_lines
end

class OrderLine < ActiveRecord::Base
  belongs_to :order
end

def schema
  dump = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, dump)
  dump.string
end

CreateOrders.migrate(:up)

# schema.rb has the defaults, so db:schema:load makes the same tables
dumped = schema
eval(dumped)
raise "another schema was loaded:\n#{dumped}\n#{schema}" unless schema == dumped
puts dumped.scan(/create_table.*/).map { |line| "schema #{line}" }

# fixtures, as tests load them
Dir.mktmpdir do |dir|
  File.write("#{dir}/orders.yml", "first:\n  item: from a fixture\n")
  ActiveRecord::FixtureSet.create_fixtures(dir, "orders")
end
puts "fixture #{Order.pluck(:item).join}"
Order.delete_all

# one row, and rows that refer to it; its key comes back as an Integer, which has no
# limit in Ruby
order = Order.new(item: "book")
order.order_lines.build([{ note: "wrap it" }, { note: "quickly" }])
order.save!
puts "inserted #{order.id}"
order.order_lines.each { |line| puts "line #{line.id} of #{line.order_id}" }

# many rows: in one statement the order of the keys is that of the rows
rows = Order.insert_all!(1000.times.map { |n| { item: "item #{n}" } })
puts "bulk #{rows.pluck('id').join(' ')}"

# page by page, by the key; in_batches and find_each read in this way, too
last = 0
until (page = Order.where("id > ?", last).order(:id).limit(300).pluck(:id)).empty?
  puts "page #{page.join(' ')}"
  last = page.last
end
