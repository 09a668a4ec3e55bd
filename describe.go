package scheduler

import (
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// Describe says in plain English when the trigger fires, such as "at 09:00 on
// weekdays"; the error's text if the trigger is faulty.
func (t Trigger) Describe() string { return t.DescribeIn(cron.English) }

// DescribeIn is Describe in a language: [cron.Chinese] says "工作日 09:00". One that is
// not known is taken for English, and errors are told in English.
func (t Trigger) DescribeIn(lang cron.Lang) string {
	if t.err != nil {
		return t.err.Error()
	}
	w := wordsOf(lang)
	text := t.describe(lang, w)
	if d := time.Duration(t.data.Jitter); d > 0 {
		text += fmt.Sprintf(w.jitter, lang.Duration(d))
	}
	if n := len(t.data.Except); n > 0 {
		text += fmt.Sprintf(w.except, n)
	}
	return text
}

func (t Trigger) describe(lang cron.Lang, w words) string {
	switch t.data.Kind {
	case store.TriggerEvery:
		return fmt.Sprintf(w.every, lang.Duration(time.Duration(t.data.Every)))
	case store.TriggerDelay:
		return fmt.Sprintf(w.after, lang.Duration(time.Duration(t.data.Every)))
	case store.TriggerTimes:
		return fmt.Sprintf(w.times, len(t.data.Times))
	case store.TriggerCustom:
		return fmt.Sprintf(w.custom, t.data.Name)
	default: // a cron expression, or unknown
	}
	expr, err := trigger.Expr(&t.data, t.id)
	if err != nil {
		return err.Error()
	}
	text := expr.Describe(lang)
	if zone := expr.Location(); zone != time.UTC {
		text += fmt.Sprintf(w.zone, zone)
	}
	return text
}

// words are the sentences in which a language tells of triggers.
type words struct {
	every, after, times, custom string // the kinds
	zone, jitter, except        string // what comes behind them
}

func wordsOf(lang cron.Lang) words {
	if lang == cron.Chinese {
		return words{
			every: "每 %s", after: "上次运行结束 %s后", times: "在 %d 个给定时间", custom: "由触发器 %s 决定",
			zone: "（%s）", jitter: "，最多推迟 %s", except: "，有 %d 项排除",
		}
	}
	return words{
		every: "every %s", after: "%s after the run before has ended", times: "at %d given times", custom: "as the trigger %s says",
		zone: " (%s)", jitter: ", later by up to %s", except: ", with %d exclusions",
	}
}
