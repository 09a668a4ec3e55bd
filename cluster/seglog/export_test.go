package seglog

// The seam for tests that bring their own disk.
type (
	Folder = folder
	File   = file
)

var OpenFolder = openFolder
