--- @include slots
--- @include run-queue
-- The scheduler: promotes what is due, then releases into the window in virtual-time order.

-- Milliseconds until something delayed or parked is due; -1 when nothing is.
local function next_due(now)
  local keys = { K.delayed .. 'interactive', K.delayed .. 'routine', K.parked }
  if redis.call('EXISTS', unpack(keys)) == 0 then return -1 end
  local first
  for _, key in ipairs(keys) do
    local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] and (not first or tonumber(head[2]) < first) then first = tonumber(head[2]) end
  end
  return first and math.max(0, first - now) or -1
end

-- Moves due delayed executions to their backlogs and unparks due tenants. O(log n) when nothing is due.
local function promote(now)
  if next_due(now) ~= 0 then return end
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', K.delayed .. lane, '-inf', now, 'LIMIT', 0, C.promote_max)) do
      redis.call('ZREM', K.delayed .. lane, id)
      local x = redis.call('HMGET', K.record .. id, 't', 'a', 'p', 'sk', 'po', 'sc')
      if x[1] then redis.call('HINCRBY', K.tenant .. x[1], 'd', -1) end
      if x[5] then
        -- Put off when it had its turn (requeue.lua): it has its place, and its session's front, still.
        redis.call('HDEL', K.record .. id, 'po')
        redis.call('HSET', K.record .. id, 's', 'queued')
        backlog_push(lane, x[1], x[2], id, tonumber(x[6]), now, true)
      elseif x[1] then
        local sequence = redis.call('INCR', K.sequence)
        local score = score_of(tonumber(x[3]), sequence)
        redis.call('HSET', K.record .. id, 's', 'queued', 'sc', score)
        enter_queue(lane, x[1], x[2], id, score, sequence, x[4], now)
      end
    end
  end
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', K.parked, '-inf', now, 'LIMIT', 0, C.promote_max)) do
    redis.call('ZREM', K.parked, tenant)
    redis.call('HDEL', K.tenant .. tenant, 'park')
    ring_enter_lanes(tenant)
  end
end

-- Releases the next execution of a lane: its job is in the run queue. False when none may go. On the
-- way, executions of sessions with a living owner go to that worker's hand: they use no window, for the worker takes
-- them when it has a slot. `handed.left` bounds how many of them one script call moves.
local function release_next(lane, now, handed)
  while true do
    local head = redis.call('ZRANGE', K.ring .. lane, 0, 0, 'WITHSCORES')
    local tenant, v = head[1], tonumber(head[2])
    if not tenant then return false end
    local key, turns = K.tenant .. tenant, K.turns .. lane .. ':' .. tenant
    local state = redis.call('HMGET', key, 'n', 'mean')
    local weight, concurrency = limits_of(tenant)
    local agent = redis.call('ZRANGE', turns, 0, 0)[1]
    if not agent or (tonumber(state[1]) or 0) >= concurrency then
      ring_leave(lane, tenant)
    else
      local backlog = K.backlog .. lane .. ':' .. tenant .. ':' .. agent
      local id = redis.call('ZRANGE', backlog, 0, 0)[1]
      redis.call('ZREM', backlog, id)
      if redis.call('EXISTS', backlog) == 0 then
        redis.call('ZREM', turns, agent)
      else
        redis.call('ZADD', turns, redis.call('HINCRBY', key, 'turn', 1), agent)
      end
      local estimate = estimate_of(state[2], lane)
      local x = redis.call('HMGET', K.record .. id, 'sk', 'pre')
      local sk = x[1]
      if sk and hand_over(lane, tenant, id, sk, v, estimate / weight, now) then
        if redis.call('EXISTS', turns) == 0 then ring_leave(lane, tenant) end
        handed.left = handed.left - 1
        if handed.left <= 0 then return false end
      else
        wait_ends(lane, tenant, id)
        redis.call('ZADD', K.ring .. lane, v + (estimate - (tonumber(x[2]) or 0)) / weight, tenant)
        if x[2] then redis.call('HDEL', K.record .. id, 'pre') end
        if v > (tonumber(redis.call('HGET', K.clock, 'v:' .. lane)) or 0) then redis.call('HSET', K.clock, 'v:' .. lane, v) end
        local outstanding = slot_take(lane, tenant, id, concurrency, estimate, now)
        if outstanding < concurrency and redis.call('EXISTS', turns) == 0 then ring_leave(lane, tenant) end
        job_add(lane, id, redis.call('HINCRBY', K.record .. id, 'rel', 1), math.min(outstanding, C.priority_max), now)
        return true
      end
    end
  end
end

-- Releases until the window is full. A quarter of it is offered to the routine lane first, so that neither lane
-- can starve the other. O((released + handed over) * log n).
local function pick(now)
  promote(now)
  if redis.call('EXISTS', K.ring .. 'interactive', K.ring .. 'routine') == 0 then return end
  local w = redis.call('HMGET', K.window, 'total', 'interactive', 'routine')
  local total = tonumber(w[1]) or 0
  if total == 0 then return end
  local window = { interactive = tonumber(w[2]) or 0, routine = tonumber(w[3]) or 0 }
  local out = { interactive = redis.call('ZCARD', K.out .. 'interactive'), routine = redis.call('ZCARD', K.out .. 'routine') }
  local reserve, dry, handed, released = math.ceil(total / 4), {}, { left = C.pick_max }, 0
  while released < C.pick_max and out.interactive + out.routine < total do
    local routine = not dry.routine and out.routine < window.routine
    local lane
    if routine and out.routine < reserve then
      lane = 'routine'
    elseif not dry.interactive and out.interactive < window.interactive then
      lane = 'interactive'
    elseif routine then
      lane = 'routine'
    else
      break
    end
    if release_next(lane, now, handed) then
      out[lane], released = out[lane] + 1, released + 1
    else
      dry[lane] = true
    end
  end
end

-- Nobody is in a ring, and nothing that is delayed or parked is due: pick would do nothing.
local function nobody_waits(now)
  local rings = { K.ring .. 'interactive', K.ring .. 'routine' }
  return redis.call('EXISTS', rings[1], rings[2], K.delayed .. 'interactive', K.delayed .. 'routine', K.parked) == 0
    or redis.call('EXISTS', unpack(rings)) == 0 and next_due(now) ~= 0
end
