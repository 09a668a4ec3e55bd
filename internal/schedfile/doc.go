// Package schedfile reads files of schedules, YAML or JSON, and says of each fault
// in which line and column it is. What the values mean is for its caller to say.
// Their form is published as schedules.schema.json beside this package.
package schedfile
