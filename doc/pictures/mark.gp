# The mark over the time: a crash, a restart, a clean restart.
# height: 620
set xrange [0:9.2]
set yrange [0:11.4]
set border 3
set tics nomirror
set xtics 1
set ytics 1
set grid linecolor rgb '#eeeeee'
set xlabel 'the wall clock, s'
set ylabel 'timestamps of IDs, s'
set key top left reverse Left spacing 1.3 samplen 3

$issued << E
0 0
3.4 3.4

5 5
6.6 6.6

7.4 7.4
9.2 9.2
E
$mark << E
0 2
1 2
1 3
2 3
2 4
3 4
3 5
3.4 5

4.2 5
5 5
5 7
6 7
6 8
6.6 8

7.4 8
7.4 9.4
8.4 9.4
8.4 10.4
9.2 10.4
E
# in the register all the time, also while nobody is there
$durable << E
3.4 5
4.2 5

6.6 8
7.4 8
E
# what the reserve covers
$reserve << E
0 0 2
1 1 2
1 1 3
2 2 3
2 2 4
3 3 4
3 3 5
3.4 3.4 5

5 5 7
6 6 7
6 6 8
6.6 6.6 8

7.4 7.4 9.4
8.4 8.4 9.4
8.4 8.4 10.4
9.2 9.2 10.4
E

set object rectangle from 3.4, 0 to 4.2, 11.4 behind fillcolor rgb '#f0f0f0' fillstyle solid noborder
set object rectangle from 6.6, 0 to 7.4, 11.4 behind fillcolor rgb '#f0f0f0' fillstyle solid noborder
set label "crash" at 3.35, 0.4 right
set label "start" at 4.25, 0.4
set label "stop" at 6.55, 0.4 right
set label "start" at 7.45, 0.4

set object rectangle from 3.4, 3.4 to 5, 5 behind fillcolor rgb '#f9d5d0' fillstyle solid noborder
set label "from 3.4 to 5: skipped.\nWhat was issued last is\nnot known, but that it\nlies below the mark" at 5.1, 4.1 textcolor rgb '#990000'
set arrow from 5.07, 3.95 to 4.72, 3.95 size 0.1, 20 linecolor rgb '#990000'
set label "Half of the reserve is used:\nthe mark moves to 2 s ahead\nof the clock. It is flushed,\nthen published, then used." at 0.25, 7.3
set arrow from 1.1, 5.8 to 1.01, 3.15 size 0.1, 20 linecolor rgb '#444444'
set label "The mark is found in the database:\ncounters begin at 5, and calls wait\nuntil the clock is there." at 2.45, 8.75
set arrow from 4.2, 7.6 to 4.2, 5.15 size 0.1, 20 linecolor rgb '#444444'
set label "A note of the clean stop says where\nissuing has ended, 6.6: nobody waits." at 5.35, 2.2
set arrow from 7.4, 2.5 to 7.4, 7.25 size 0.1, 20 linecolor rgb '#444444'

plot $reserve using 1:2:3 with filledcurves fillcolor rgb '#fdf1cf' title 'the reserve: covered, and not issued yet', \
	x with lines dashtype 3 linecolor rgb '#888888' title 'the clock', \
	$issued with lines linewidth 4 linecolor rgb '#3465a4' title 'the last ID issued', \
	$mark with lines linewidth 3 linecolor rgb '#cc0000' title 'the mark: every ID is below', \
	$durable with lines linewidth 3 dashtype 2 linecolor rgb '#cc0000' notitle
