package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/engine/cron"
)

func TestTrigger_DescribeIn(t *testing.T) {
	shanghai := scheduler.Zone("Asia/Shanghai")
	for _, c := range []struct {
		trigger          scheduler.Trigger
		english, chinese string
	}{
		{scheduler.Cron("0 9 * * MON-FRI"), "at 09:00 on weekdays", "工作日 09:00"},
		{scheduler.Cron("0 9 * * MON-FRI", shanghai), "at 09:00 on weekdays (Asia/Shanghai)", "工作日 09:00（Asia/Shanghai）"},
		{scheduler.Cron("@every 90m"), "every 1h30m", "每 1 小时 30 分钟"},
		{scheduler.Every(1500 * time.Millisecond), "every 1.5s", "每 1 秒 500 毫秒"},
		{scheduler.After(10 * time.Minute), "10m after the run before has ended", "上次运行结束 10 分钟后"},
		{scheduler.Times(epoch, epoch.Add(time.Hour)), "at 2 given times", "在 2 个给定时间"},
		{scheduler.Custom("tides", nil), "as the trigger tides says", "由触发器 tides 决定"},
		{
			scheduler.Cron("@daily", shanghai, scheduler.Jitter(5*time.Minute), scheduler.Except(scheduler.Days("2000-01-01"), scheduler.NamedCalendar("x"))),
			"at 00:00 every day (Asia/Shanghai), later by up to 5m, with 2 exclusions", "每天 00:00（Asia/Shanghai），最多推迟 5 分钟，有 2 项排除",
		},
	} {
		if got := c.trigger.Describe(); got != c.english {
			t.Errorf("Describe: %q, want %q", got, c.english)
		}
		for lang, want := range map[cron.Lang]string{cron.English: c.english, cron.Chinese: c.chinese, "tlh": c.english} {
			if got := c.trigger.DescribeIn(lang); got != want {
				t.Errorf("in %s: %q, want %q", lang, got, want)
			}
		}
	}
	for want, trigger := range map[string]scheduler.Trigger{"0-23": scheduler.Cron("0 25 * * *"), "no expression": {}} {
		if got := trigger.DescribeIn(cron.Chinese); !strings.Contains(got, want) {
			t.Errorf("a faulty trigger: %q, want %q", got, want)
		}
	}
}
