
Í/device:GPU:0bStream #14(Compute)
"?ÜÐ" 	"/*+regs:32 grid:4,2,1 block:128,1,1 occ_pct:50"("gemm*correlation_id*kernel_details*
core_count2l
U	/host:CPUpython
"À„=" 	"cuLaunchKernel*correlation_id"a-host