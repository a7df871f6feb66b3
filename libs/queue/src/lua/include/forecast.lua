--- @include tenant
-- Where a waiting execution stands: executions expected to start before it, and milliseconds until it starts.
-- Estimates from the scheduler's state, O(log n): agents of the tenant and tenants of the lane take turns; other
-- tenants count with weight 1. The ETA is -1 (unknown) while no worker serves the lane.
local function forecast(lane, tenant, agent, id, now)
  local backlog = K.backlog .. lane .. ':' .. tenant .. ':' .. agent
  local rank = redis.call('ZRANK', backlog, id)
  if not rank then return 0, 0 end
  local turns = K.turns .. lane .. ':' .. tenant
  local s = redis.call('HMGET', K.tenant .. tenant, 'q:' .. lane, 'mean', 'park', 'n')
  local queued = tonumber(s[1]) or 0
  local weight, concurrency = limits_of(tenant)

  local others_of_tenant = queued - redis.call('ZCARD', backlog)
  local turn = redis.call('ZRANK', turns, agent) or 0
  local before_in_tenant = rank + math.min(others_of_tenant, rank * (redis.call('ZCARD', turns) - 1) + turn)

  local others = math.max(0, redis.call('ZCARD', K.waiting .. lane) - queued)
  local place = redis.call('ZRANK', K.ring .. lane, tenant)
  local rivals = redis.call('ZCARD', K.ring .. lane) - (place and 1 or 0)
  local before_in_lane = math.min(others, math.floor(before_in_tenant * rivals / weight) + (place or rivals))
  local ready = redis.call('ZCARD', K.bull .. lane .. ':prioritized') + redis.call('LLEN', K.bull .. lane .. ':wait')
  local position = before_in_tenant + before_in_lane + ready

  local slots = (tonumber(redis.call('HGET', K.window, lane)) or 0) / C.window_factor
  if slots == 0 then return position, -1 end
  local lane_mean = tonumber(redis.call('HGET', K.clock, 'mean:' .. lane)) or 1
  local over = (tonumber(s[4]) or 0) + before_in_tenant + 1 - concurrency
  local seconds = math.max(
    (position + 1) * lane_mean / slots,
    math.max(0, over) * (tonumber(s[2]) or lane_mean) / concurrency
  )
  return position, math.ceil(math.max(seconds * 1000, (tonumber(s[3]) or now) - now))
end
