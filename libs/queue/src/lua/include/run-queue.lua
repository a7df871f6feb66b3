--- @include later
--- @include kinds
-- The run queue of a lane in BullMQ's keys. A release adds its job in the same step, so none is ever lost between the
-- two. What stands in BullMQ's keys is what its own scripts would leave (test/run-queue.test.ts compares them), without
-- entries in its event stream, which nobody reads.

-- The job that carries the n-th release of an execution; keys.ts has the same.
local function job_of(id, release)
  release = tostring(release)
  return release == '1' and id or id .. '.' .. release
end

-- Whoever waits is woken, and takes, when the script is through: once is enough. Workers of several kinds
-- wait at a mark of their own besides BullMQ's, so that none is woken for what it cannot serve.
local marked = {}
local function job_mark(lane, kind)
  local mark = K.bull .. lane .. ':marker' .. (are_kinds_alike() and '' or ':' .. kind)
  if marked[mark] then return end
  redis.call('ZADD', mark, 0, '0')
  marked[mark] = true
end

-- For a worker of `kind`, or any other that has a slot first and can serve it. `is_later`: the order is
-- written by write_now.
local function job_add(lane, id, release, kind, priority, now, is_later)
  local queue, job = K.bull .. lane, job_of(id, release)
  redis.call('HSET', queue .. ':' .. job, 'name', 'x', 'data', '{}', 'opts', '{}', 'timestamp', now, 'delay', 0,
    'priority', priority)
  local count, write = count_later, write_later
  if not is_later then count, write = function(key) return redis.call('INCR', key) end, redis.call end
  write('ZADD', queue .. ':prioritized', priority * 4294967296 + count(queue .. ':pc') % 4294967296, job)
  job_mark(lane, kind)
end

-- Adds a job anew that is gone, where BullMQ puts those whose worker died (take-lost.lua).
local function job_add_lost(lane, id, release, now)
  local queue, job = K.bull .. lane, job_of(id, release)
  redis.call('HSET', queue .. ':' .. job, 'name', 'x', 'data', '{}', 'opts', '{}', 'timestamp', now, 'delay', 0, 'priority', 1)
  redis.call('LPUSH', queue .. ':wait', job)
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

-- The first job of a lane that a kind can serve; nil when there is none. What is in front of it is for
-- others, and they are woken. O(what is in front), which is what is released for other kinds.
local JOBS_LOOKED_AT = 32
local function job_first(lane, kind)
  local jobs, from = K.bull .. lane .. ':prioritized', 0
  if are_kinds_alike() and is_known(kind) then return redis.call('ZRANGE', jobs, 0, 0)[1] end
  while true do
    local page = redis.call('ZRANGE', jobs, from, from + JOBS_LOOKED_AT - 1)
    for _, job in ipairs(page) do
      local x = redis.call('HMGET', K.record .. string.match(job, '^[^.]*'), 'nd', 'k', 's')
      -- Stale ones are for anybody to throw away.
      if x[3] ~= 'released' or serves(kind, x[1]) then return job end
      job_mark(lane, x[2])
    end
    if #page < JOBS_LOOKED_AT then return nil end
    from = from + JOBS_LOOKED_AT
  end
end

-- The next job of a lane for a worker of `kind`, in the order of BullMQ's fetch; nil when there is none,
-- false when somebody paused or limited the queue through BullMQ: its own fetch knows what that means. What
-- BullMQ found stalled is not fetched here (take-lost.lua).
local looked = {}
local function job_next(lane, kind)
  local queue = K.bull .. lane
  if not looked[lane] then
    local meta = redis.call('HMGET', queue .. ':meta', 'paused', 'concurrency', 'max')
    if meta[1] or meta[2] or meta[3] then return false end
    -- No script of ours changes it either.
    looked[lane] = true
  end
  local first = job_first(lane, kind)
  if first then
    redis.call('ZREM', queue .. ':prioritized', first)
  elseif are_kinds_alike() then
    redis.call('DEL', queue .. ':pc')
  end
  return first
end

-- What BullMQ's fetch does to the job that it hands to a worker; its place among the active ones is written by write_now.
local function job_lock(lane, job, worker, kind, token, lock_ms, now, was_fetched)
  local queue = K.bull .. lane
  local key = queue .. ':' .. job
  write_later('LPUSH', queue .. ':active', job)
  redis.call('SET', key .. ':lock', token, 'PX', lock_ms)
  local fetches = was_fetched and redis.call('HINCRBY', key, 'ats', 1) or 1
  redis.call('HSET', key, 'processedOn', now, 'pb', worker, 'ats', fetches)
  job_mark(lane, kind)
end

-- BullMQ's own scripts (its fetch from a limited queue, the stalled check) add to its event stream, and not all of them trim it.
local function job_none(lane)
  redis.call('XTRIM', K.bull .. lane .. ':events', 'MAXLEN', '~', C.bull_events)
  return { 'none' }
end

-- Jobs that wait for a worker with a slot.
local function jobs_waiting(lane) return redis.call('ZCARD', K.bull .. lane .. ':prioritized') end
