--- @include backlog
-- Sessions. The record of an execution that names a session has `sk` = `<tenant>:<key>`.
--   front     (`f` of the session) the one execution of the session that may be in a backlog, assigned,
--             released or running. The others wait behind it in `sq:<sk>` in order of arrival, so they run
--             one at a time and hold no slot.
--   owner     (`w`) the worker that took its last execution and therefore has its sandbox. The entry outlives
--             the last execution by C.session_ttl, the longest idle time of a session. A stale entry only
--             costs affinity. The owner of a run's session stays the same for an execution that only asks for
--             larger amounts (own.lua).
--   assigned  executions that the scheduler picked for a session with a live owner: a sorted set per lane and
--             worker, by virtual time. They still wait (depth, cancel, overdue), and only the owner takes
--             them (take-assigned.lua). When a worker leaves, drains or falls silent, they return to the
--             backlogs.

-- Makes `id` the front of its session and returns true, or queues it behind the front and returns false.
local function session_enter(sk, id, sequence)
  local session = K.session .. sk
  local front = redis.call('HGET', session, 'f')
  if front and front ~= id then
    local state = redis.call('HGET', K.record .. front, 's')
    if state and state ~= 'ended' then
      redis.call('ZADD', K.session_queue .. sk, sequence, id)
      return false
    end
  end
  redis.call('HSET', session, 'f', id)
  redis.call('PERSIST', session)
  return true
end

-- A new or due execution begins to wait. `sk` is '' or false without a session.
local function enter_queue(lane, tenant, agent, id, score, sequence, sk, now)
  wait_begins(lane, tenant, id, now)
  if not sk or sk == '' or session_enter(sk, id, sequence) then
    backlog_insert(lane, tenant, agent, id, score)
  end
end

-- After `id` ended: removes it from its session's queue if it waited there. If it was the front, moves the
-- next one to its backlog with its original score. O(log n).
local function session_leave(sk, id)
  if not sk then return end
  if redis.call('ZREM', K.session_queue .. sk, id) == 1 then return end
  local session = K.session .. sk
  if redis.call('HGET', session, 'f') ~= id then return end
  local head = redis.call('ZRANGE', K.session_queue .. sk, 0, 0)[1]
  if not head then
    redis.call('HDEL', session, 'f')
    redis.call('PEXPIRE', session, C.session_ttl)
    return
  end
  redis.call('ZREM', K.session_queue .. sk, head)
  redis.call('HSET', session, 'f', head)
  local x = redis.call('HMGET', K.record .. head, 'l', 't', 'a', 'sc')
  backlog_insert(x[1], x[2], x[3], head, tonumber(x[4]))
end

-- Slots of a worker in a lane, and its kind. 0 slots when it drains, is unknown, or is silent too long.
local function slots_of_worker(worker, lane, now)
  local beat = tonumber(redis.call('ZSCORE', K.beats, worker) or '0')
  local raw = redis.call('HGET', K.workers, worker)
  if not raw then return 0 end
  local interactive, routine, lock, kind = string.match(raw, '^%d+|(%d+)|(%d+)|%d+|(%d+)|%d+|(.*)$')
  if not lock or now - beat > tonumber(lock) then return 0 end
  return tonumber(lane == 'routine' and routine or interactive), kind
end

-- The virtual time of a tenant's next turn at a kind.
local function turn_at(lane, tenant, kind)
  local v = redis.call('ZSCORE', ring_of(lane, kind), tenant)
  if v then return tonumber(v) end
  local own = redis.call('HGET', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind)
  return math.max(clock_of(lane, kind), tonumber(own) or 0)
end

-- Assigns a picked id to the owner of its session, if that worker is alive, serves the lane and has what the
-- execution needs. The score is the virtual time of the tenant's turn at the owner's kind, plus one step for
-- each execution of the tenant that is already assigned.
local function assign(lane, tenant, id, sk, need, step, now)
  local worker = redis.call('HGET', K.session .. sk, 'w')
  if not worker then return false end
  local slots, kind = slots_of_worker(worker, lane, now)
  if slots == 0 or not serves(kind, need) then return false end
  local before = redis.call('HINCRBY', K.tenant .. tenant, 'h:' .. lane, 1) - 1
  redis.call('ZADD', K.assigned .. lane .. ':' .. worker, turn_at(lane, tenant, kind) + before * step, id)
  redis.call('HSET', K.record .. id, 'hd', worker)
  redis.call('PUBLISH', K.assigned_channel .. worker, lane)
  return true
end

-- Removes an id from a worker's assigned queue. False when it was not there.
local function unassign(lane, tenant, id, worker)
  if redis.call('ZREM', K.assigned .. lane .. ':' .. worker, id) == 0 then return false end
  if redis.call('HINCRBY', K.tenant .. tenant, 'h:' .. lane, -1) <= 0 then
    redis.call('HDEL', K.tenant .. tenant, 'h:' .. lane)
  end
  redis.call('HDEL', K.record .. id, 'hd')
  return true
end

-- Returns a worker's assigned executions to the backlogs when it takes no more. True when none is left.
local function unassign_all(worker)
  local left = C.sweep_max
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    for _, id in ipairs(redis.call('ZRANGE', K.assigned .. lane .. ':' .. worker, 0, left - 1)) do
      local x = redis.call('HMGET', K.record .. id, 't', 'a', 'sc')
      unassign(lane, x[1], id, worker)
      backlog_insert(lane, x[1], x[2], id, tonumber(x[3]))
      left = left - 1
    end
    if left <= 0 then return false end
  end
  return true
end

-- Ends the wait of an id: removes it from the backlog or the assigned queue. session_leave removes it from
-- its session's queue.
local function leave_queue(lane, tenant, agent, id, sk, worker)
  wait_ends(lane, tenant, id)
  if sk and redis.call('ZSCORE', K.session_queue .. sk, id) then return end
  if worker and unassign(lane, tenant, id, worker) then return end
  backlog_remove(lane, tenant, agent, id)
end
