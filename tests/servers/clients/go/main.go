// Writes actions through the bulk indexer of a real Go client, as any user of that client would.
//
// The only argument is a JSON object:
//
//	url, index      where to write
//	library         "elasticsearch-8", "elasticsearch-9" (go-elasticsearch) or "opensearch" (opensearch-go)
//	chunk           documents of a request, about
//	concurrency     how many requests may be in flight
//	actions         path of a file with one {"op", "id", "body"} a line ("body" is missing for a delete)
//	stop_at         take no more actions than these, and wait to be killed (missing: take all)
//
// Standard output: "read N" as the helper takes its actions, "stopped" where it is to be killed, at the end one JSON
// object with "succeeded" and "errors".
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// Of a document in a request, about.
	documentBytes = 1200
	// Enough for any fault that a test provokes, however long it takes; the pauses are short so that the tests are.
	retries = 1000
	pause   = 50 * time.Millisecond
	// The longest line that a file of actions may have.
	longestLine = 16 << 20
)

// Statuses of a whole request after which the transport sends it again.
var busy = []int{429, 502, 503, 504}

type job struct {
	URL         string `json:"url"`
	Index       string `json:"index"`
	Library     string `json:"library"`
	Concurrency int    `json:"concurrency"`
	Chunk       int    `json:"chunk"`
	Actions     string `json:"actions"`
	StopAt      *int   `json:"stop_at"`
}

type action struct {
	Op   string          `json:"op"`
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
}

// result is what the bulk indexer reports of one action.
type result struct {
	status int
	// The response item, of a response's own type.
	item any
	// Set if the whole request failed.
	err error
}

// indexer is a bulk indexer of one of the clients. add calls done once, when the action has its result.
type indexer interface {
	add(action action, done func(result)) error
	close() error
}

type driver struct {
	mutex     sync.Mutex
	succeeded int
	errors    []map[string]any
	// Rejected with 429: the helper leaves it to its user to add them again.
	again []action
	fatal error
}

func (d *driver) done(action action, result result) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	switch {
	case result.err != nil:
		d.fatal = result.err
	case result.status == 429:
		d.again = append(d.again, action)
	case result.status >= 300:
		d.errors = append(d.errors, map[string]any{action.Op: result.item})
	default:
		d.succeeded++
	}
}

// write sends all actions of next through one indexer and returns when each has its result.
func (d *driver) write(open func() (indexer, error), next func() (action, error)) error {
	indexer, err := open()
	if err != nil {
		return err
	}
	for {
		action, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := indexer.add(action, func(result result) { d.done(action, result) }); err != nil {
			return err
		}
	}
	if err := indexer.close(); err != nil {
		return err
	}
	return d.fatal
}

func run() error {
	var task job
	if err := json.Unmarshal([]byte(os.Args[1]), &task); err != nil {
		return err
	}
	openers := map[string]func(job) (func() (indexer, error), error){
		"elasticsearch-8": elasticsearch8,
		"elasticsearch-9": elasticsearch9,
		"opensearch":      openSearch,
	}
	opener, known := openers[task.Library]
	if !known {
		return fmt.Errorf("unknown library %q", task.Library)
	}
	open, err := opener(task)
	if err != nil {
		return err
	}
	file, err := os.Open(task.Actions)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()

	driver := driver{errors: []map[string]any{}}
	if err := driver.write(open, reading(file, task.Chunk, task.StopAt)); err != nil {
		return err
	}
	for left := retries; len(driver.again) > 0; left-- {
		if left == 0 {
			return fmt.Errorf("%d actions are rejected again and again", len(driver.again))
		}
		time.Sleep(pause)
		actions := driver.again
		driver.again = nil
		if err := driver.write(open, each(actions)); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"succeeded": driver.succeeded, "errors": driver.errors})
}

// reading returns the actions of a file, one at a call, and reports where it is.
func reading(file io.Reader, chunk int, stopAt *int) func() (action, error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longestLine)
	count := 0
	return func() (action, error) {
		var action action
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return action, err
			}
			return action, io.EOF
		}
		if stopAt != nil && count == *stopAt {
			fmt.Println("stopped")
			// Standard input never ends while the test runs.
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
		if count%chunk == 0 {
			fmt.Println("read", count)
		}
		count++
		return action, json.Unmarshal(lines.Bytes(), &action)
	}
}

func each(actions []action) func() (action, error) {
	return func() (action, error) {
		if len(actions) == 0 {
			return action{}, io.EOF
		}
		first := actions[0]
		actions = actions[1:]
		return first, nil
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
