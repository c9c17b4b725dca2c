# WebSearch: background flows of a cluster that answers web searches
# source: M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4
# points: alibaba-edu/High-Precision-Congestion-Control, traffic_gen/WebSearch_distribution.txt (HPCC, SIGCOMM 2019)
# bytes, percent of the flows that are no larger; linear in between
0 0
10000 15
20000 20
30000 30
50000 40
80000 53
200000 60
1000000 70
2000000 80
5000000 90
10000000 97
30000000 100
