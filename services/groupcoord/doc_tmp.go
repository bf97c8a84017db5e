package tmp
