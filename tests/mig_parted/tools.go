//go:build tools

// Package tools pins the program that compare.py builds: NVIDIA's nvidia-mig-parted.
package tools

import _ "github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted"
