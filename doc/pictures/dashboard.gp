# What the dashboard of examples/grafana shows of a server in trouble. The data are what
# its expressions found in a run. To record them anew, in a directory of "postgres":
#	SNOWFLAKE_RECORD=DIRECTORY/dashboard.dat test/all t/integration/prometheus.pl
# height: 700
data = 'dashboard.dat'
set multiplot
set xrange [0:130]
set border 3
set tics nomirror
set grid linecolor rgb '#dddddd'
set key top right Left samplen 2
set style line 1 linewidth 2 linecolor rgb '#3465a4'
set style line 2 linewidth 2 linecolor rgb '#cc0000'
set lmargin 10
set size 0.5, 0.33

set origin 0, 0.67
set title 'IDs a second'
set logscale y
set format y '%.0s%c'
set yrange [1000:1e7]
plot data index 'IDs a second, A' with lines linestyle 1 title 'db1'

unset logscale
set format y '%g'
set origin 0.5, 0.67
set title 'Drift, s'
set yrange [0:6]
set ytics 1
plot data index 'Drift, A' with lines linestyle 1 title 'db1'

set origin 0, 0.34
set title 'Sessions that wait, on average'
set yrange [0:1.2]
set ytics 0.2
plot data index 'Sessions that wait, on average, A' with lines linestyle 1 title 'db1 next tick', \
	data index 'Sessions that wait, on average, B' with lines linestyle 2 title 'db1 clock'

set origin 0.5, 0.34
set title 'Horizon held back, s'
set yrange [0:25]
set ytics 5
plot data index 'Horizon held back, A' with lines linestyle 1 title 'db1'

set origin 0, 0
set size 1, 0.34
set lmargin 22
set title 'Checks of snowflake_status() that were not ok: green is ok, orange a warning'
set xlabel 'seconds'
set yrange [-0.6:*]
level(l) = l == 0 ? 0x73a55b : l == 1 ? 0xf2a93b : 0xcc0000
unset key
plot data index 'Checks of snowflake_status() that were not ok, A' every 2 \
	using 1:3:(1):(0.35):(level($2)):yticlabels(4) with boxxyerror fillstyle solid 1 noborder linecolor rgb variable
unset multiplot
