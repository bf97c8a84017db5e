package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/tests/measure"
)

// family is the processor time in seconds and the resident MiB of a process and all that descend from it.
func family(pid int) (cpu, resident float64, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(child); ok {
			children[parent] = append(children[parent], child)
		}
	}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		c, err := measure.CPU(queue[0])
		if err != nil {
			return 0, 0, err
		}
		m, err := measure.ResidentMiB(queue[0])
		if err != nil {
			return 0, 0, err
		}
		cpu, resident = cpu+c, resident+m
		queue = append(queue, children[queue[0]]...)
	}
	return cpu, resident, nil
}

// parentOf reads /proc/PID/stat, where the parent follows the state behind the program's name in parentheses.
func parentOf(pid int) (int, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false // it has ended
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}
