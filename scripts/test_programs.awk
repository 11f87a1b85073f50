# test_programs.awk - the targets that tests need: reads names of tests, then the files that CTest reads
#
# CTest itself tells the program of a test only once that is built.
NR == FNR { wanted[$1] = 1; next }
/^add_test\(/ {
  name = $0
  sub(/^add_test\((\[=\[)?/, "", name)
  sub(/(\]=\])? .*/, "", name)
  if (!(name in wanted)) next
  if (match($0, /\/tests\/(test|fuzz)_[a-z_]+/)) print substr($0, RSTART + 7, RLENGTH - 7)
  else print "programs"
}
