# The presets bit by bit, all with the lowest bit at the right.
# height: 640
set xrange [64.6:-0.6]
set yrange [8.75:0.2]
set border 0
unset key
unset ytics
set xtics scale 0 (0, 8, 16, 24, 32, 40, 48, 56, 64)
set lmargin 1
set rmargin 1
set style fill solid 1 border rgb '#666666'
set arrow from 53, 0.35 to 53, 8.65 nohead dashtype 2 linecolor rgb '#cc0000' front
set label 'below 2^53 a JavaScript number is exact' at 52.7, 0.42 textcolor rgb '#cc0000'
set arrow from 63, 0.35 to 63, 8.65 nohead dashtype 2 linecolor rgb '#888888' front
set label 'bit 63 is the sign' at 62.7, 0.42 textcolor rgb '#666666'
plot $texts using (64):1:(0):(64):($1 + 0.02):($1 + 0.5) with boxxyerror fillcolor rgb '#f7f7f7', \
	$fields using 2:1:3:2:($1 + 0.02):($1 + 0.5):4 with boxxyerror linecolor rgb variable, \
	$fields using (($2 + $3) / 2):($1 + 0.15):5 with labels font ',12', \
	$fields using (($2 + $3) / 2):($1 + 0.36):6 with labels font ',11' textcolor rgb '#444444', \
	$texts using (62.7):($1 - 0.12):2 with labels left font ',14', \
	$texts using (52.6):($1 - 0.12):3 with labels left font 'monospace,12' textcolor rgb '#444444'
