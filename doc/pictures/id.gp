# One ID of the default layout, with the fields of an example.
# height: 150
set xrange [64.6:-0.6]
set yrange [2.1:0]
set border 0
unset key
unset ytics
unset xtics
set lmargin 1
set rmargin 1
set tmargin 0
set bmargin 0
set style fill solid 1 border rgb '#666666'
$fields << E
64 63 0xf7f7f7 "" "0"
63 22 0xcfe2f3 "timestamp, 41 bits: ms since 2024-01-01" "2026-11-23 03:45:30.194"
22 12 0xb6d7a8 "node, 10 bits" "1"
12 0 0xead1dc "sequence, 12 bits" "0"
E
set label '383100723686019072 =' at 64, 0.3 font ',14'
plot $fields using 1:(0.6):2:1:(0.6):(1.5):3 with boxxyerror linecolor rgb variable, \
	$fields using (($1 + $2) / 2):(1.05):5 with labels font ',15', \
	$fields using (($1 + $2) / 2):(1.75):4 with labels font ',12' textcolor rgb '#444444'
