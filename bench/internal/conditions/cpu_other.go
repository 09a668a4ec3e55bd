//go:build !unix

package conditions

import "time"

// CPU returns 0: this system does not tell.
func CPU() time.Duration { return 0 }
