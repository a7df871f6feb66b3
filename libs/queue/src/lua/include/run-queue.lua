-- The run queue of a lane in BullMQ's keys. A release adds its job in the same step, so none is ever lost between the
-- two; the job is what BullMQ's own script for prioritised jobs writes (test/run-queue.test.ts compares them), without
-- entries in BullMQ's event stream, which nobody reads.

-- The job that carries the n-th release of an execution; keys.ts has the same.
local function job_of(id, release)
  release = tostring(release)
  return release == '1' and id or id .. '.' .. release
end

local function job_add(lane, id, release, priority, now)
  local queue, job = K.bull .. lane, job_of(id, release)
  redis.call('HSET', queue .. ':' .. job, 'name', 'x', 'data', '{}', 'opts', '{}', 'timestamp', now, 'delay', 0,
    'priority', priority)
  local order = redis.call('INCR', queue .. ':pc')
  redis.call('ZADD', queue .. ':prioritized', priority * 4294967296 + order % 4294967296, job)
  redis.call('ZADD', queue .. ':marker', 0, '0')
end

-- Jobs that wait for a worker.
local function jobs_waiting(lane)
  return redis.call('ZCARD', K.bull .. lane .. ':prioritized') + redis.call('LLEN', K.bull .. lane .. ':wait')
end
