/*
 * engine_amx.h - included before every file of the engine: its kernels for AMX are left out
 *
 * Those of llama.cpp v0.5.0 are wrong. Products of more than two dimensions, as recurrent and hybrid models have, are
 * written past their place (mmq.cpp counts bytes as floats): the results are no numbers, or the process dies. With GCC 12
 * every product dies, since its _tile_loadconfig tells the optimiser of 8 of the 64 bytes that it reads. Without them the
 * engine uses its AVX-512 kernels. tests/vectors holds the models' results. Look again with the next version.
 */
#undef __AMX_INT8__
