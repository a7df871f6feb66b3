--- @include slots
--- @include bullmq
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
    local due = redis.call('ZRANGEBYSCORE', K.delayed .. lane, '-inf', now, 'LIMIT', 0, C.promote_max)
    for _, id in ipairs(due) do
      redis.call('ZREM', K.delayed .. lane, id)
      local x = redis.call('HMGET', K.record .. id, 't', 'a', 'p', 'sk', 'po', 'sc')
      if x[1] then redis.call('HINCRBY', K.tenant .. x[1], 'd', -1) end
      if x[5] then
        -- requeue.lua delayed it after its turn, so it keeps its score and stays the front of its session.
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

-- Releases the next execution of a lane that a kind can serve by adding its job to the run queue. Returns
-- false when none may be released. If the session of an execution has a live owner, the execution is assigned
-- to that worker instead. It does not count against the window, because the worker takes it when it has a
-- slot. `steps.left` bounds how many other tenants and executions one call looks at.
local function release_next(lane, kind, now, steps)
  local ring, skipped = ring_of(lane, kind), 0
  while steps.left > 0 do
    local head = redis.call('ZRANGE', ring, skipped, skipped, 'WITHSCORES')
    local tenant, v = head[1], tonumber(head[2])
    if not tenant then return false end
    local state = redis.call('HMGET', K.tenant .. tenant, 'n', 'mean', 'n:' .. lane .. ':' .. kind)
    local weight, concurrency = limits_of(tenant)
    local out = tonumber(state[1]) or 0
    local first = out < concurrency and backlog_next(lane, tenant, kind)
    if out >= concurrency then
      ring_leave(lane, tenant)
      steps.left = steps.left - 1
    elseif not first then
      ring_leave_kind(lane, tenant, kind)
      steps.left = steps.left - 1
    elseif has_its_share(lane, kind, tenant, out, tonumber(state[3]) or 0, state[2]) then
      -- The tenant has its full share and keeps its position. Few tenants can be in this state, because a
      -- share is most of the slots.
      skipped = skipped + 1
      steps.left = steps.left - 1
    else
      local id = first.id
      backlog_take(lane, tenant, first)
      local estimate = estimate_of(state[2], lane)
      local x = redis.call('HMGET', K.record .. id, 'sk', 'pre', 'nd')
      if x[1] and assign(lane, tenant, id, x[1], x[3], estimate / weight, now) then
        ring_trim(lane, tenant)
        steps.left = steps.left - 1
      else
        wait_ends(lane, tenant, id)
        redis.call('ZADD', ring, v + (estimate - (tonumber(x[2]) or 0)) / weight, tenant)
        if x[2] then redis.call('HDEL', K.record .. id, 'pre') end
        if v > clock_of(lane, kind) then redis.call('HSET', K.clock, 'v:' .. lane .. ':' .. kind, v) end
        local outstanding = slot_take(lane, tenant, id, kind, concurrency, estimate, now)
        ring_trim(lane, tenant)
        local priority = math.min(outstanding, C.priority_max)
        job_add(lane, id, redis.call('HINCRBY', K.record .. id, 'rel', 1), kind, priority, now)
        return true
      end
    end
  end
  return false
end

-- Releases executions for a kind until `total` are outstanding at it, and at most `window` of each lane.
-- Offers a quarter to the routine lane first, so that neither lane can starve the other. O((released + looked
-- at) * log n).
local function fill(kind, window, total, now, steps)
  local out, dry, reserve = out_at(kind), {}, math.ceil(total / 4)
  while steps.released < C.pick_max and out.interactive + out.routine < total do
    local routine = not dry.routine and out.routine < window.routine
    local lane
    if routine and out.routine < reserve then
      lane = 'routine'
    elseif not dry.interactive and out.interactive < window.interactive then
      lane = 'interactive'
    elseif routine then
      lane = 'routine'
    else
      return
    end
    if release_next(lane, kind, now, steps) then
      out[lane], steps.released = out[lane] + 1, steps.released + 1
    else
      dry[lane] = true
    end
  end
end

local function all_rings()
  local rings = {}
  for _, kind in ipairs(known_kinds()) do
    rings[#rings + 1] = ring_of('interactive', kind)
    rings[#rings + 1] = ring_of('routine', kind)
  end
  return rings
end

-- Releases until the windows of all kinds are full. With several kinds it first fills all free slots,
-- strongest isolation first, and only then releases beyond the slots. So an execution that any kind may run
-- does not wait for one kind while another has a slot.
local function pick(now)
  promote(now)
  if redis.call('EXISTS', unpack(all_rings())) == 0 then return end
  local steps = { left = C.pick_max, released = 0 }
  for _, factor in ipairs(are_kinds_alike() and { 1 } or { 1 / C.window_factor, 1 }) do
    for _, kind in ipairs(known_kinds()) do
      local interactive, total = window_of(kind, 'interactive')
      local routine = window_of(kind, 'routine')
      local window = { interactive = math.floor(interactive * factor), routine = math.floor(routine * factor) }
      if total > 0 then fill(kind, window, math.floor(total * factor), now, steps) end
    end
  end
end

local function anybody_waits_in(lane)
  for _, kind in ipairs(known_kinds()) do
    if redis.call('EXISTS', ring_of(lane, kind)) == 1 then return true end
  end
  return false
end

-- True when pick would do nothing: no tenant is in a ring, and nothing delayed or parked is due.
local function nobody_waits(now)
  local rings = all_rings()
  local keys = { K.delayed .. 'interactive', K.delayed .. 'routine', K.parked, unpack(rings) }
  if redis.call('EXISTS', unpack(keys)) == 0 then return true end
  return redis.call('EXISTS', unpack(rings)) == 0 and next_due(now) ~= 0
end
