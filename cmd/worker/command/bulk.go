package command

import (
	"fmt"
	"strconv"
	"strings"
)

// bulkJSON is what became of one id of a command that takes several.
type bulkJSON struct {
	ID   int64 `json:"id"`
	Done bool  `json:"done"`
}

// distinct are the ids in order, each once: an id that is given twice is not unknown the second time.
func distinct(ids []int64) ([]int64, error) {
	seen := make(map[int64]bool, len(ids))
	var once []int64
	for _, id := range ids {
		if id < 1 {
			return nil, usagef("id %d: ids begin at 1", id)
		}
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once, nil
}

// printBulk prints a line for each id and returns the error of those that there were none of: with ExitNothing if that is
// all of them, and with ExitFailed if part of the work was done. verb is what was done, what is what was missing.
func printBulk(out *output, verb, what string, ids []int64, there []bool) error {
	var missing []string
	for i, id := range ids {
		if !there[i] {
			missing = append(missing, strconv.FormatInt(id, 10))
		}
		var err error
		switch {
		case out.json:
			err = out.object(bulkJSON{ID: id, Done: there[i]})
		case there[i]:
			err = out.printf("%s %d\n", verb, id)
		}
		if err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no %s job %s", what, strings.Join(missing, ", "))
	if len(missing) == len(ids) {
		return nothingf("%s", text)
	}
	return failedf("%s; %s %d of %d", text, verb, len(ids)-len(missing), len(ids))
}
