--- @include session
--- @include bullmq
--- @include slots
-- Forecast of a waiting execution: how many executions are expected to start before it, and milliseconds
-- until it starts. It is an estimate from the scheduler's state, O(C.rivals_max * log n). Agents of the
-- tenant take turns, and the tenant's virtual time at its turn tells which other tenants come first, at each
-- kind of worker that can serve the execution. Tenants at their concurrency limit and later arrivals are
-- ignored. The ETA is -1 (unknown) while no worker serves the lane. A lane has as many slots as its workers
-- can fill. A worker that is short of memory reports fewer than it has (heartbeat.lua).

-- Public status of a stored state. A released execution waits for a worker, and a taken one waits for memory
-- and a sandbox until `begin` sets `started`. Callers see both as queued.
local function status_of(state, started)
  if state == 'released' or (state == 'running' and not started) then return 'queued' end
  return state or 'ended'
end

-- Average seconds of a tenant's run. Until its first run has ended, the lane's average or a guess.
local function average_of(average, lane)
  return tonumber(average) or tonumber(redis.call('HGET', K.clock, 'avg:' .. lane)) or C.first_estimate
end

-- Executions of other tenants that come before virtual time `v` at a kind of worker, and their seconds. A
-- tenant runs one execution at its turn. Its virtual time then advances by run length divided by weight,
-- until its backlog is empty. Looks at C.rivals_max evenly spread tenants and assumes that the others are
-- like them. `own_below`: the tenant itself is below `v`, and is not counted.
local function tenants_before(lane, kind, tenant, v, own_below)
  local ring = ring_of(lane, kind)
  local below = redis.call('ZCOUNT', ring, '-inf', string.format('(%.17g', v))
  local looked, count, seconds = 0, 0, 0
  local samples = math.min(below, C.rivals_max)
  for i = 0, samples - 1 do
    local at = math.floor(i * below / samples)
    local other = redis.call('ZRANGE', ring, at, at, 'WITHSCORES')
    if other[1] and other[1] ~= tenant then
      local s = redis.call('HMGET', K.tenant .. other[1], 'q:' .. lane, 'avg')
      local length = average_of(s[2], lane)
      local step = length / limits_of(other[1])
      local turns = math.ceil((v - tonumber(other[2])) / math.max(step, 0.000001))
      local runs = math.min(tonumber(s[1]) or 0, turns)
      looked, count, seconds = looked + 1, count + runs, seconds + runs * length
    end
  end
  if looked == 0 then return 0, 0 end
  local others = below - (own_below and 1 or 0)
  return count / looked * others, seconds / looked * others
end

local forecast

-- Jobs before `rank` in the run queue of a lane that a worker of one of `kinds` may take. With several kinds
-- of workers, jobs that none of these may take do not delay them. Looks at C.rivals_max evenly spread jobs.
local function ready_for(lane, kinds, rank)
  if are_kinds_alike() or rank == 0 then return rank end
  local samples, ours = math.min(rank, C.rivals_max), 0
  for i = 0, samples - 1 do
    local job = job_at(lane, math.floor(i * rank / samples))
    local need = job and redis.call('HGET', K.record .. execution_of(job), 'nd')
    for _, kind in ipairs(kinds) do
      if serves(kind, need) then
        ours = ours + 1
        break
      end
    end
  end
  return math.floor(ours / samples * rank + 0.5)
end

local function slots_of_lane(lane)
  return (tonumber(redis.call('HGET', K.window, lane)) or 0) / C.window_factor
end

-- Slots of a lane at the kinds that can serve a need, and those kinds.
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

-- Seconds between two starts on a lane, at `kinds` of workers (nil: all kinds). While all their slots are
-- taken, an execution starts whenever a running one ends. Each running one is assumed to take its tenant's
-- average, because the lane's mean is wrong when long runs hold the slots and hundreds of short ones wait.
-- Looks at C.rivals_max evenly spread running ones. While slots are free, uses the lane's mean.
local paces = {}
local function pace_of(lane, slots, kinds)
  local at, out = lane .. ':' .. (kinds and table.concat(kinds, ' ') or ''), 0
  if paces[at] then return paces[at] end
  local all, is_ours = redis.call('ZCARD', K.out .. lane), {}
  for _, kind in ipairs(kinds or {}) do
    is_ours[kind] = true
    out = out + out_at(kind)[lane]
  end
  if not kinds then out = all end
  local samples, looked, ends = math.min(all, C.rivals_max), 0, 0
  for i = 0, out > slots and samples - 1 or -1 do
    local rank = math.floor(i * all / samples)
    local id = redis.call('ZRANGE', K.out .. lane, rank, rank)[1]
    local x = redis.call('HMGET', K.record .. id, 't', 'st', 'k')
    if not kinds or is_ours[x[3]] then
      looked = looked + 1
      if x[2] then
        local average = average_of(redis.call('HGET', K.tenant .. x[1], 'avg'), lane)
        ends = ends + 1 / math.max(average, 0.000001)
      end
    end
  end
  paces[at] = ends > 0 and looked / (ends * out) or average_of(false, lane) / slots
  return paces[at]
end

-- Assigned to a worker: starts after earlier ones that are assigned to it, at that worker's pace.
local function forecast_assigned(lane, id, worker, now)
  local position = redis.call('ZRANK', K.assigned .. lane .. ':' .. worker, id) or 0
  local slots, all_slots = slots_of_worker(worker, lane, now), slots_of_lane(lane)
  if slots == 0 or all_slots == 0 then return position, -1 end
  return position, math.ceil((position + 1) * pace_of(lane, all_slots) * all_slots / slots * 1000)
end

-- Behind other executions of its session: these run one at a time.
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

-- Released: waits in the run queue of its lane, or a worker has fetched it. Its ETA depends only on the slots
-- of kinds that can serve it.
local function forecast_released(lane, id, release)
  local rank = job_rank(lane, job_of(id, release))
  if not rank then return 0, 0 end
  local slots, kinds = slots_for(lane, redis.call('HGET', K.record .. id, 'nd'))
  local position = ready_for(lane, kinds, rank)
  if slots == 0 then return position, -1 end
  if are_kinds_alike() then kinds = nil end
  return position, math.ceil((position + 1) * pace_of(lane, slots, kinds) * 1000)
end

-- `sk` and `worker` are fields `sk` and `hd` of the record, or false.
forecast = function(lane, tenant, agent, id, now, sk, worker)
  if worker then return forecast_assigned(lane, id, worker, now) end
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
  -- An execution that several kinds can serve goes to the kind with the least work before it.
  local before_in_lane, seconds_in_lane
  for _, kind in ipairs(#kinds > 0 and kinds or known_kinds()) do
    local v = turn_at(lane, tenant, kind) + before_in_tenant * own / weight
    local in_ring = redis.call('ZSCORE', ring_of(lane, kind), tenant)
    local count, length = tenants_before(lane, kind, tenant, v, in_ring and before_in_tenant > 0)
    if not seconds_in_lane or length < seconds_in_lane then
      before_in_lane, seconds_in_lane = count, length
    end
  end
  local ready = ready_for(lane, kinds, jobs_waiting(lane))
  local position = before_in_tenant + math.floor(before_in_lane + 0.5) + ready

  if slots == 0 then return position, -1 end
  local lane_mean = average_of(false, lane)
  local window = math.min(fleet_window(), slots * C.window_factor)
  local share = share_of(tenant, s[5], window)
  concurrency = math.max(1, math.min(concurrency, share))
  local over = (tonumber(s[4]) or 0) + before_in_tenant + 1 - concurrency
  local ready_seconds = (ready + 1) * lane_mean
  local seconds = math.max(
    (before_in_tenant * own + seconds_in_lane + ready_seconds) / slots,
    math.max(0, over) * own / concurrency
  )
  return position, math.ceil(math.max(seconds * 1000, (tonumber(s[3]) or now) - now))
end

-- Milliseconds until the first of a tenant's waiting executions starts, so that the tenant may enqueue one
-- more. -1 when unknown.
local function forecast_first_start(tenant, now)
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
