--- @include later
--- @include kinds
-- The run queue of a lane, in BullMQ's private keys. Only this file names them (B.* is bullmq-keys.ts). A
-- release adds its job in the same script, so a crash cannot lose the job. The scripts leave the same in
-- these keys as BullMQ's own scripts (test/bullmq-compatibility.test.ts), except for events, which nobody
-- reads.

local function queue_of(lane) return K.bull .. lane end

local function job_key(lane, job) return queue_of(lane) .. ':' .. job end

-- The ID of the job that carries the n-th release of an execution; jobIdOf in keys.ts builds the same ID.
local function job_of(id, release)
  release = tostring(release)
  return release == '1' and id or id .. '.' .. release
end

-- Inverse of job_of: the execution and its release, as text.
local function execution_of(job)
  local id, release = string.match(job, '^([^.]*)%.?(%d*)$')
  return id, release == '' and '1' or release
end

-- Wakes a waiting worker once the script has ended. Once per script is enough. With several kinds of workers
-- each kind also has a marker of its own, so that no worker wakes for a job that it cannot serve.
local marked = {}
local function job_mark(lane, kind)
  local marker = queue_of(lane) .. B.marker .. (are_kinds_alike() and '' or ':' .. kind)
  if marked[marker] then return end
  redis.call('ZADD', marker, 0, '0')
  marked[marker] = true
end

local function marker_remove(lane, kind) redis.call('DEL', queue_of(lane) .. B.marker .. ':' .. kind) end

local function job_write(lane, job, priority, now)
  redis.call('HSET', job_key(lane, job), B.job_name, 'x', B.job_data, '{}', B.job_options, '{}',
    B.job_timestamp, now, B.job_delay, 0, B.job_priority, priority)
end

-- Adds a job for workers of `kind`, or for any other worker that can serve it and has a free slot earlier.
-- With `is_later`, write_now inserts the job into the sorted set of waiting jobs.
local function job_add(lane, id, release, kind, priority, now, is_later)
  local queue, job = queue_of(lane), job_of(id, release)
  job_write(lane, job, priority, now)
  local count, write = count_later, write_later
  if not is_later then count, write = function(key) return redis.call('INCR', key) end, redis.call end
  local order = count(queue .. B.priority_counter) % 4294967296
  write('ZADD', queue .. B.prioritized, priority * 4294967296 + order, job)
  job_mark(lane, kind)
end

-- Adds a missing job again, to the list where BullMQ puts the jobs of dead workers (take-lost.lua).
local function job_add_lost(lane, id, release, now)
  local job = job_of(id, release)
  job_write(lane, job, 1, now)
  redis.call('LPUSH', queue_of(lane) .. B.wait, job)
end

local function job_exists(lane, job) return redis.call('EXISTS', job_key(lane, job)) == 1 end

-- Deletes a stale job that is in no list or set of the queue any more.
local function job_delete(lane, job) redis.call('DEL', job_key(lane, job)) end

-- Removes a job that no worker has fetched. Returns false when a worker has.
local function job_withdraw(lane, job)
  if redis.call('ZREM', queue_of(lane) .. B.prioritized, job) == 0 then return false end
  job_delete(lane, job)
  return true
end

-- Position of a waiting job, from 0. False when it does not wait.
local function job_rank(lane, job) return redis.call('ZRANK', queue_of(lane) .. B.prioritized, job) end

-- The job at a position, from 0.
local function job_at(lane, rank)
  return redis.call('ZRANGE', queue_of(lane) .. B.prioritized, rank, rank)[1]
end

local function jobs_waiting(lane) return redis.call('ZCARD', queue_of(lane) .. B.prioritized) end

-- The next job that BullMQ's stalled check found without a lock, or false.
local function job_pop_stalled(lane) return redis.call('RPOP', queue_of(lane) .. B.wait) end

-- Ends a job if the worker still has its lock. Has the effect of BullMQ's moveToFinished for a job that is
-- not kept.
local function job_end(lane, job, token)
  local key = job_key(lane, job)
  if redis.call('GET', key .. B.lock) ~= token then return end
  redis.call('DEL', key, key .. B.lock)
  write_later('SREM', queue_of(lane) .. B.stalled, job)
  redis.call('LREM', queue_of(lane) .. B.active, -1, job)
end

-- Locks a job for a worker as BullMQ's fetch does. write_now adds it to the active jobs.
local function job_lock(lane, job, worker, kind, token, lock_ms, now, was_fetched)
  local key = job_key(lane, job)
  write_later('LPUSH', queue_of(lane) .. B.active, job)
  redis.call('SET', key .. B.lock, token, 'PX', lock_ms)
  local fetches = was_fetched and redis.call('HINCRBY', key, B.job_attempts_started, 1) or 1
  redis.call('HSET', key, B.job_processed_on, now, B.job_processed_by, worker,
    B.job_attempts_started, fetches)
  job_mark(lane, kind)
end

-- Locks a job again whose lock expired. False when the job is gone or another worker has locked it.
local function job_relock(lane, job, token, lock_ms)
  local key = job_key(lane, job)
  local holder = redis.call('GET', key .. B.lock)
  if not job_exists(lane, job) or holder and holder ~= token then return false end
  redis.call('SET', key .. B.lock, token, 'PX', lock_ms)
  redis.call('SREM', queue_of(lane) .. B.stalled, job)
  return true
end

-- The first job of a lane that a kind can serve, or nil. Wakes workers of other kinds for the jobs before it.
-- O(jobs before it), which are releases for other kinds.
local JOBS_PER_PAGE = 32
local function job_first(lane, kind)
  local jobs, from = queue_of(lane) .. B.prioritized, 0
  if are_kinds_alike() and is_known(kind) then return redis.call('ZRANGE', jobs, 0, 0)[1] end
  while true do
    local page = redis.call('ZRANGE', jobs, from, from + JOBS_PER_PAGE - 1)
    for _, job in ipairs(page) do
      local x = redis.call('HMGET', K.record .. execution_of(job), 'nd', 'k', 's')
      -- Any worker may delete a stale job.
      if x[3] ~= 'released' or serves(kind, x[1]) then return job end
      job_mark(lane, x[2])
    end
    if #page < JOBS_PER_PAGE then return nil end
    from = from + JOBS_PER_PAGE
  end
end

-- Removes the next job of a lane for a worker of `kind`, in the order of BullMQ's fetch. Nil when there is
-- none. False when the queue was paused or limited through BullMQ, because only BullMQ's fetch honours that.
-- Jobs of dead workers: see take-lost.lua.
local is_unlimited = {}
local function job_next(lane, kind)
  local queue = queue_of(lane)
  if not is_unlimited[lane] then
    local meta = redis.call('HMGET', queue .. B.meta, B.meta_paused, B.meta_concurrency, B.meta_rate_limit)
    if meta[1] or meta[2] or meta[3] then return false end
    -- No script of ours changes these settings, so one read per script call is enough.
    is_unlimited[lane] = true
  end
  local first = job_first(lane, kind)
  if first then
    redis.call('ZREM', queue .. B.prioritized, first)
  elseif are_kinds_alike() then
    redis.call('DEL', queue .. B.priority_counter)
  end
  return first
end

-- BullMQ's own scripts (fetch from a limited queue, stalled check) add events and do not always trim them.
local function trim_events(lane)
  redis.call('XTRIM', queue_of(lane) .. B.events, 'MAXLEN', '~', C.bull_events)
end
