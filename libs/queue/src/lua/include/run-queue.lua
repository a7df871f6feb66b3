--- @include later
-- The run queue of a lane in BullMQ's keys. A release adds its job in the same step, so none is ever lost between the
-- two. What stands in BullMQ's keys is what its own scripts would leave (test/run-queue.test.ts compares them), without
-- entries in its event stream, which nobody reads.

-- The job that carries the n-th release of an execution; keys.ts has the same.
local function job_of(id, release)
  release = tostring(release)
  return release == '1' and id or id .. '.' .. release
end

-- Whoever waits is woken, and takes, when the script is through: once is enough.
local marked = {}
local function job_mark(lane)
  if marked[lane] then return end
  redis.call('ZADD', K.bull .. lane .. ':marker', 0, '0')
  marked[lane] = true
end

-- `is_later`: the order is written by write_now.
local function job_add(lane, id, release, priority, now, is_later)
  local queue, job = K.bull .. lane, job_of(id, release)
  redis.call('HSET', queue .. ':' .. job, 'name', 'x', 'data', '{}', 'opts', '{}', 'timestamp', now, 'delay', 0,
    'priority', priority)
  local count, write = count_later, write_later
  if not is_later then count, write = function(key) return redis.call('INCR', key) end, redis.call end
  write('ZADD', queue .. ':prioritized', priority * 4294967296 + count(queue .. ':pc') % 4294967296, job)
  job_mark(lane)
end

-- What BullMQ's moveToFinished does to a job of a release, which keeps nothing when it ends. One that another worker
-- holds by now, or that is gone, is left alone.
local function job_end(lane, job, token)
  local queue = K.bull .. lane
  local key = queue .. ':' .. job
  if redis.call('GET', key .. ':lock') ~= token then return end
  redis.call('DEL', key, key .. ':lock')
  write_later('SREM', queue .. ':stalled', job)
  redis.call('LREM', queue .. ':active', -1, job)
end

-- The next job of a lane, in the order of BullMQ's fetch; nil when there is none, false when somebody paused or limited the
-- queue through BullMQ: its own fetch knows what that means. And whether it was fetched before.
local looked = {}
local function job_next(lane)
  local queue = K.bull .. lane
  if not looked[lane] then
    local meta = redis.call('HMGET', queue .. ':meta', 'paused', 'concurrency', 'max')
    if meta[1] or meta[2] or meta[3] then return false end
    local stalled = redis.call('RPOP', queue .. ':wait')
    if stalled then return stalled, true end
    -- No script of ours changes either.
    looked[lane] = true
  end
  local first = redis.call('ZPOPMIN', queue .. ':prioritized')[1]
  if not first then redis.call('DEL', queue .. ':pc') end
  return first or nil, false
end

-- What BullMQ's fetch does to the job that it hands to a worker; its place among the active ones is written by write_now.
local function job_lock(lane, job, worker, token, lock_ms, now, was_fetched)
  local queue = K.bull .. lane
  local key = queue .. ':' .. job
  write_later('LPUSH', queue .. ':active', job)
  redis.call('SET', key .. ':lock', token, 'PX', lock_ms)
  local fetches = was_fetched and redis.call('HINCRBY', key, 'ats', 1) or 1
  redis.call('HSET', key, 'processedOn', now, 'pb', worker, 'ats', fetches)
  job_mark(lane)
end

-- BullMQ's own scripts (its fetch from a limited queue, the stalled check) add to its event stream, and not all of them trim it.
local function job_none(lane)
  redis.call('XTRIM', K.bull .. lane .. ':events', 'MAXLEN', '~', C.bull_events)
  return { 'none' }
end

-- Jobs that wait for a worker.
local function jobs_waiting(lane)
  return redis.call('ZCARD', K.bull .. lane .. ':prioritized') + redis.call('LLEN', K.bull .. lane .. ':wait')
end
