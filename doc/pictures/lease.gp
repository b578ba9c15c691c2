# One node id in a registry, and three servers that have it in turn.
# height: 700
set xrange [0:245]
set yrange [-72:325]
set border 3
set tics nomirror
set xtics 30
set ytics 0, 30, 330
set grid linecolor rgb '#eeeeee'
set xlabel 'the wall clock, s'
set ylabel 'timestamps of IDs, s'
set key top left reverse Left spacing 1.3 samplen 3

$a << E
0 0
150 150
E
$b << E
150 150
205 205
E
$c << E
215 215
245 245
E
# as the registry has acknowledged it
$until << E
0 90
30 90
30 120
60 120
60 150
148 150
148 238
178 238
178 268
205 268
205 205
215 205
215 305
245 305
E

# who may issue what, whatever the clocks say
set object rectangle from 0, 0 to 245, 150 behind fillcolor rgb '#e3edf8' fillstyle solid noborder
set object rectangle from 0, 150 to 245, 205 behind fillcolor rgb '#e5f3df' fillstyle solid noborder
set object rectangle from 0, 205 to 245, 305 behind fillcolor rgb '#fbe9d9' fillstyle solid noborder
set label "A's timestamps" at 243, 8 right textcolor rgb '#204a87'
set label "B's" at 243, 158 right textcolor rgb '#38761d'
set label "C's" at 243, 297 right textcolor rgb '#b45f06'

set label "A claims the node id:\nuntil 90" at 2, 78
set label "A extends it, when\na third is used" at 10, 192
set arrow from 22, 170 to 29.5, 124 size 2.5, 20 linecolor rgb '#444444'
set arrow from 42, 172 to 59, 153 size 2.5, 20 linecolor rgb '#444444'
set label "A is cut off from the registry,\nand issues on, up to 150" at 78, 60
set arrow from 82, 66 to 76, 74 size 2.5, 20 linecolor rgb '#444444'
set label "A's presence is over, so B\nmay claim: from 150 on,\nnot before its clock is there" at 89, 265
set arrow from 120, 232 to 147, 200 size 2.5, 20 linecolor rgb '#444444'
set label "At 150 A stops:\nits calls wait" at 158, 105
set arrow from 165, 113 to 151.5, 148 size 2.5, 20 linecolor rgb '#444444'
set label "At 190 A reads the record:\nnot its own. It is fenced,\nand claims another node id" at 158, 60
set label "B stops, and gives back\nwhat it has not used" at 148, 308
set arrow from 193, 292 to 204, 262 size 2.5, 20 linecolor rgb '#444444'
set label "C goes on\nat once" at 222, 187
set arrow from 221, 193 to 215.6, 213 size 2.5, 20 linecolor rgb '#444444'

# presence: whom the registry has heard of within 30 s
set label "present, says the registry (for others' choice only)" at 2, -10 font ',12' textcolor rgb '#444444'
set object rectangle from 0, -34 to 105, -24 fillcolor rgb '#3465a4' fillstyle solid noborder
set object rectangle from 148, -50 to 205, -40 fillcolor rgb '#4e9a06' fillstyle solid noborder
set object rectangle from 215, -66 to 245, -56 fillcolor rgb '#ce5c00' fillstyle solid noborder
set label 'A' at 107, -29
set label 'B' at 145, -45 right
set label 'C' at 212, -61 right
set arrow from 75, -34 to 75, -24 nohead linecolor rgb '#ffffff' linewidth 2 front
set label 'last heard of at 75' at 73, -29 right font ',11' textcolor rgb '#ffffff' front

plot x with lines dashtype 3 linecolor rgb '#888888' title 'the clock', \
	$a with lines linewidth 4 linecolor rgb '#3465a4' title 'issued by A', \
	$b with lines linewidth 4 linecolor rgb '#4e9a06' title 'by B', \
	$c with lines linewidth 4 linecolor rgb '#ce5c00' title 'by C', \
	$until with lines linewidth 3 linecolor rgb '#cc0000' title 'until: the end of what is leased'
