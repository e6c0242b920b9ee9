package exec

import (
	"bytes"
	"os"
	"strconv"
)

// onlyZombies says whether there are processes of the group and all of them have ended. It is false if /proc does not
// tell.
func onlyZombies(group int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	found := false
	for _, e := range entries {
		if name := e.Name(); name[0] < '1' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has gone since
		}
		// "12 (name) S 1 12 …": state, parent, group. The name may hold anything, parentheses as well.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		if state := fields[0][0]; state != 'Z' && state != 'X' {
			return false
		}
		found = true
	}
	return found
}
