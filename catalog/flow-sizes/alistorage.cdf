# AliStorage: flows of a distributed storage system at Alibaba in 2019
# source: the artifacts of Y. Li et al., "HPCC: high precision congestion control", SIGCOMM 2019
# points: alibaba-edu/High-Precision-Congestion-Control, traffic_gen/AliStorage2019.txt
# bytes, percent of the flows that are no larger; linear in between
0 0
4000 22.93
8000 69.21
16000 80.61
32000 90.47
64000 93.53
128000 96.77
256000 97.53
2000000 100
