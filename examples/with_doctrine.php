#!/usr/bin/env php
<?php
// Snowflake keys with Doctrine's ORM. PGHOST and the like name the server.
namespace Shop;

// Debian's Doctrine 2.14 uses what its newer parts call deprecated.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
require 'Doctrine/ORM/autoload.php';
require 'Symfony/Component/Cache/autoload.php';

use Doctrine\Common\Collections\ArrayCollection;
use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Id\AbstractIdGenerator;
use Doctrine\ORM\Mapping as ORM;
use Doctrine\ORM\ORMSetup;
use Doctrine\ORM\Tools\SchemaTool;

// Fetches a key at persist(). Call that in the transaction that inserts the row, or
// snowflake_horizon() does not cover the row. With IDENTITY Doctrine would ask for
// lastInsertId(), which knows only sequences.
class Snowflakes extends AbstractIdGenerator
{
    public function generateId(EntityManagerInterface $em, $entity)
    {
        return (string) $em->getConnection()->fetchOne('SELECT snowflake_nextval()');
    }
}

// A key of the type "bigint" is a string in PHP, and also in JSON. The default in the
// database is for other clients than Doctrine.
#[ORM\Entity, ORM\Table(name: 'orders')]
class Order
{
    #[ORM\Id, ORM\Column(type: 'bigint', columnDefinition: 'bigint NOT NULL DEFAULT snowflake_nextval()')]
    #[ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: Snowflakes::class)]
    public string $id;

    #[ORM\OneToMany(targetEntity: OrderLine::class, mappedBy: 'order', cascade: ['persist'])]
    public $lines;

    public function __construct(#[ORM\Column(type: 'text')] public string $item)
    {
        $this->lines = new ArrayCollection();
    }
}

#[ORM\Entity, ORM\Table(name: 'order_lines')]
class OrderLine
{
    #[ORM\Id, ORM\Column(type: 'bigint', columnDefinition: 'bigint NOT NULL DEFAULT snowflake_nextval()')]
    #[ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: Snowflakes::class)]
    public string $id;

    public function __construct(
        #[ORM\ManyToOne(targetEntity: Order::class, inversedBy: 'lines'),
            ORM\JoinColumn(name: 'order_id', nullable: false, columnDefinition: 'bigint NOT NULL')]
        public Order $order,
        #[ORM\Column(type: 'text')] public string $note)
    {
        $order->lines->add($this);
    }
}

$config = ORMSetup::createAttributeMetadataConfiguration([], isDevMode: true);
$em = new EntityManager(DriverManager::getConnection([
    'driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'), 'port' => getenv('PGPORT'),
    'dbname' => getenv('PGDATABASE'), 'user' => getenv('PGUSER')], $config), $config);

// In a project, migrations do this.
(new SchemaTool($em))->createSchema(
    [$em->getClassMetadata(Order::class), $em->getClassMetadata(OrderLine::class)]);

// one row, and rows that refer to it
$order = new Order('book');
$lines = [new OrderLine($order, 'wrap it'), new OrderLine($order, 'quickly')];
$em->wrapInTransaction(fn () => $em->persist($order));
echo "inserted $order->id\n";
foreach ($lines as $line) {
    echo "line $line->id of {$line->order->id}\n";
}
echo 'json ', json_encode(['id' => $order->id, 'lines' => array_map(
    fn ($line) => ['id' => $line->id, 'orderId' => $line->order->id], $lines)]), "\n";

// many rows: one statement makes the keys and inserts the rows
$items = array_map(fn ($n) => "item $n", range(0, 999));
$bulk = $em->getConnection()->fetchFirstColumn('INSERT INTO orders (item)
    SELECT value FROM json_array_elements_text(?) RETURNING id', [json_encode($items)]);
echo 'bulk ', implode(' ', $bulk), "\n";

// page by page: each page begins after the last key of the page before
$query = $em->createQuery('SELECT o.id FROM Shop\Order o WHERE o.id > :last ORDER BY o.id')->setMaxResults(300);
$last = '0';
while ($page = $query->setParameter('last', $last)->getSingleColumnResult()) {
    echo 'page ', implode(' ', $page), "\n";
    $last = end($page);
}
