--- @include backlog
-- Sessions. An execution that names one carries `sk` = `<tenant>:<key>` in its record.
--   front   (`f` of the session) the one execution of it that may be in a backlog, in a hand, released or running. The
--           others wait behind it in `sq:<sk>` in order of arrival, so they run one at a time and hold no slot.
--   owner   (`w`) the worker that took its last execution and therefore has its sandbox. The entry outlives the last
--           execution by C.session_ttl, the longest idle time a session may have; a stale one costs affinity only.
--           That of a run's session stays where it is for an execution that only asks for more (own.lua).
--   hand    executions that the scheduler picked for a session whose owner lives: a zset per lane and worker, by
--           virtual time. They still wait (depth, cancel, overdue); only the owner takes them (take-handed.lua). A
--           worker that leaves, drains or falls silent has its hand put back into the backlogs.

-- Makes `id` the front of its session, or puts it behind. True when it is the front and goes to its backlog.
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
    backlog_place(lane, tenant, agent, id, score)
  end
end

-- `id` ended: the next one of its session goes to its backlog, at the place that its age gives it. O(log n).
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
  backlog_place(x[1], x[2], x[3], head, tonumber(x[4]))
end

-- Slots of a worker in a lane, and its kind; 0 when it is silent for longer than its lock time, drains, or is
-- unknown.
local function slots_of_worker(worker, lane, now)
  local beat = tonumber(redis.call('ZSCORE', K.beats, worker) or '0')
  local raw = redis.call('HGET', K.workers, worker)
  if not raw then return 0 end
  local interactive, routine, lock, kind = string.match(raw, '^%d+|(%d+)|(%d+)|%d+|(%d+)|%d+|(.*)$')
  if not lock or now - beat > tonumber(lock) then return 0 end
  return tonumber(lane == 'routine' and routine or interactive), kind
end

-- The virtual time at which a tenant's turn comes at a kind.
local function turn_at(lane, tenant, kind)
  local v = redis.call('ZSCORE', ring_of(lane, kind), tenant)
  if v then return tonumber(v) end
  return math.max(clock_of(lane, kind), tonumber(redis.call('HGET', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind)) or 0)
end

-- Puts a picked id into the hand of its session's owner, if that lives, serves the lane and has what the
-- execution needs. The tag is the virtual time at which the tenant's turn for it comes at the owner's kind,
-- and one step later for each that it already has in hands.
local function hand_over(lane, tenant, id, sk, need, step, now)
  local worker = redis.call('HGET', K.session .. sk, 'w')
  if not worker then return false end
  local slots, kind = slots_of_worker(worker, lane, now)
  if slots == 0 or not serves(kind, need) then return false end
  local before = redis.call('HINCRBY', K.tenant .. tenant, 'h:' .. lane, 1) - 1
  redis.call('ZADD', K.handed .. lane .. ':' .. worker, turn_at(lane, tenant, kind) + before * step, id)
  redis.call('HSET', K.record .. id, 'hd', worker)
  redis.call('PUBLISH', K.handed_channel .. worker, lane)
  return true
end

-- Takes an id out of a hand; false when it was not there.
local function hand_leave(lane, tenant, id, worker)
  if redis.call('ZREM', K.handed .. lane .. ':' .. worker, id) == 0 then return false end
  if redis.call('HINCRBY', K.tenant .. tenant, 'h:' .. lane, -1) <= 0 then
    redis.call('HDEL', K.tenant .. tenant, 'h:' .. lane)
  end
  redis.call('HDEL', K.record .. id, 'hd')
  return true
end

-- Puts the hand of a worker that does not take any more back into the backlogs; true when nothing is left in it.
local function hand_return(worker)
  local left = C.sweep_max
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    for _, id in ipairs(redis.call('ZRANGE', K.handed .. lane .. ':' .. worker, 0, left - 1)) do
      local x = redis.call('HMGET', K.record .. id, 't', 'a', 'sc')
      hand_leave(lane, x[1], id, worker)
      backlog_place(lane, x[1], x[2], id, tonumber(x[3]))
      left = left - 1
    end
    if left <= 0 then return false end
  end
  return true
end

-- Takes a waiting id out of wherever it waits.
local function leave_queue(lane, tenant, agent, id, sk, worker)
  wait_ends(lane, tenant, id)
  if sk and redis.call('ZSCORE', K.session_queue .. sk, id) then return end
  if worker and hand_leave(lane, tenant, id, worker) then return end
  backlog_remove(lane, tenant, agent, id)
end
