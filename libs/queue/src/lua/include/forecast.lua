--- @include status
--- @include session
--- @include bullmq
--- @include share
--- @include rivals
-- Where a waiting execution stands: executions expected to start before it, and milliseconds until it starts.
-- Estimates from the scheduler's state, O(C.rivals_max * log n): agents of the tenant take turns, and the tenant's
-- virtual time at its turn says which of the others come before (rivals.lua), at the kinds of workers that
-- can serve it. Tenants at their concurrency are left out, and what comes later is not foreseen. The ETA is
-- -1 (unknown) while no worker serves the lane. The lane's slots are those that workers can fill: one whose
-- memory is the bottleneck reports fewer (heartbeat.lua).
local forecast

local function slots_of_lane(lane)
  return (tonumber(redis.call('HGET', K.window, lane)) or 0) / C.window_factor
end

-- Slots of a lane at the kinds that can serve a need, and these kinds.
local function slots_for(lane, need)
  local slots, kinds = 0, {}
  for _, kind in ipairs(known_kinds()) do
    local window = serves(kind, need) and window_of(kind, lane) or 0
    if window > 0 then
      slots = slots + window / C.window_factor
      kinds[#kinds + 1] = kind
    end
  end
  return slots, kinds
end

-- Seconds from one start to the next on a lane whose slots are taken: something starts whenever one of those that run ends, each of
-- which takes what its tenant's take on the average. Where small programs come by the hundred and large ones have the slots, the mean
-- of the lane says little of that. C.rivals_max of them, evenly spread, are looked at. By the mean of the lane where slots are free.
local paces = {}
local function pace_of(lane, slots)
  if paces[lane] then return paces[lane] end
  local out = redis.call('ZCARD', K.out .. lane)
  local samples, ends = math.min(out, C.rivals_max), 0
  for i = 0, out > slots and samples - 1 or -1 do
    local at = math.floor(i * out / samples)
    local x = redis.call('HMGET', K.record .. redis.call('ZRANGE', K.out .. lane, at, at)[1], 't', 'st')
    if x[2] then ends = ends + 1 / math.max(average_of(redis.call('HGET', K.tenant .. x[1], 'avg'), lane), 0.000001) end
  end
  paces[lane] = ends > 0 and samples / (ends * out) or average_of(false, lane) / slots
  return paces[lane]
end

-- In the hand of a worker: behind what is in it, at that worker's pace.
local function forecast_in_hand(lane, id, worker, now)
  local position = redis.call('ZRANK', K.handed .. lane .. ':' .. worker, id) or 0
  local slots, all_slots = slots_of_worker(worker, lane, now), slots_of_lane(lane)
  if slots == 0 or all_slots == 0 then return position, -1 end
  return position, math.ceil((position + 1) * pace_of(lane, all_slots) * all_slots / slots * 1000)
end

-- Behind others of its session, which run one at a time.
local function forecast_in_session(lane, tenant, rank, sk, now)
  local front = redis.call('HGET', K.session .. sk, 'f')
  local x = redis.call('HMGET', K.record .. front, 's', 'a', 'hd', 'l', 'st')
  local mean = average_of(redis.call('HGET', K.tenant .. tenant, 'avg'), lane)
  local position, eta = rank, 0
  if status_of(x[1], x[5]) == 'queued' then
    position, eta = forecast(x[4], tenant, x[2], front, now, false, x[3])
    position = position + 1 + rank
  end
  return position, eta < 0 and -1 or math.ceil(eta + (rank + 1) * mean * 1000)
end

-- Released: in the run queue of its lane, or with a worker already.
local function forecast_released(lane, id, release)
  local position = job_rank(lane, job_of(id, release))
  if not position then return 0, 0 end
  local slots = slots_of_lane(lane)
  if slots == 0 then return position, -1 end
  return position, math.ceil((position + 1) * pace_of(lane, slots) * 1000)
end

-- `sk` and `worker` are fields `sk` and `hd` of the record, or false.
forecast = function(lane, tenant, agent, id, now, sk, worker)
  if worker then return forecast_in_hand(lane, id, worker, now) end
  local behind = sk and sk ~= '' and redis.call('ZRANK', K.session_queue .. sk, id)
  if behind then return forecast_in_session(lane, tenant, behind, sk, now) end
  local x = redis.call('HMGET', K.record .. id, 'c', 'nd')
  local class = x[1] or lane
  local backlog = backlog_of(class, tenant, agent)
  local rank = redis.call('ZRANK', backlog, id)
  if not rank then return 0, 0 end
  local turns = K.turns .. class .. ':' .. tenant
  local s = redis.call('HMGET', K.tenant .. tenant, 'q:' .. lane, 'avg', 'park', 'n', 'mean')
  local queued = tonumber(s[1]) or 0
  local weight, concurrency = limits_of(tenant)

  local others_of_tenant = queued - redis.call('ZCARD', backlog)
  local turn = redis.call('ZRANK', turns, agent) or 0
  local before_in_tenant = rank + math.min(others_of_tenant, rank * (redis.call('ZCARD', turns) - 1) + turn)

  local own = average_of(s[2], lane)
  local slots, kinds = slots_for(lane, x[2])
  -- What any of several kinds can serve goes where the least is before it.
  local before_in_lane, seconds_in_lane
  for _, kind in ipairs(#kinds > 0 and kinds or known_kinds()) do
    local v = turn_at(lane, tenant, kind) + before_in_tenant * own / weight
    local in_ring = redis.call('ZSCORE', ring_of(lane, kind), tenant)
    local count, length = rivals_before(lane, kind, tenant, v, in_ring and before_in_tenant > 0)
    if not seconds_in_lane or length < seconds_in_lane then before_in_lane, seconds_in_lane = count, length end
  end
  local ready = jobs_waiting(lane)
  local position = before_in_tenant + math.floor(before_in_lane + 0.5) + ready

  if slots == 0 then return position, -1 end
  local lane_mean = average_of(false, lane)
  concurrency = math.max(1, math.min(concurrency, share_of(tenant, s[5], fleet_window()), share_of(tenant, s[5], slots * C.window_factor)))
  local over = (tonumber(s[4]) or 0) + before_in_tenant + 1 - concurrency
  local seconds = math.max(
    (before_in_tenant * own + seconds_in_lane + (ready * slots / slots_of_lane(lane) + 1) * lane_mean) / slots,
    math.max(0, over) * own / concurrency
  )
  return position, math.ceil(math.max(seconds * 1000, (tonumber(s[3]) or now) - now))
end

-- Milliseconds until the first of a tenant's waiting executions starts, and so makes room for another; -1 when that is unknown.
local function forecast_room(tenant, now)
  local first = -1
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    for _, kind in ipairs(known_kinds()) do
      local head = backlog_next(lane, tenant, kind)
      if head then
        local _, eta = forecast(lane, tenant, head.agent, head.id, now, false, false)
        if eta >= 0 and (first < 0 or eta < first) then first = eta end
      end
    end
  end
  return first
end
