package store

//go:generate go run github.com/tinylib/msgp@v1.6.5 -file spec.go -unexported -io=false -tests=false -o spec_gen.go
//go:generate go run github.com/tinylib/msgp@v1.6.5 -file run.go -io=false -tests=false -o run_gen.go
//go:generate go run github.com/tinylib/msgp@v1.6.5 -file schedule.go -io=false -tests=false -o schedule_gen.go
//go:generate go run github.com/tinylib/msgp@v1.6.5 -file command.go -io=false -tests=false -o command_gen.go
//go:generate go run github.com/tinylib/msgp@v1.6.5 -file result.go -io=false -tests=false -o result_gen.go
//go:generate go run github.com/tinylib/msgp@v1.6.5 -file flush.go -io=false -tests=false -o flush_gen.go
//go:generate go run github.com/tinylib/msgp@v1.6.5 -file node.go -io=false -tests=false -o node_gen.go
