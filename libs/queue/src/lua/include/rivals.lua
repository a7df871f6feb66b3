--- @include ring
-- Other tenants of a lane that come before a virtual time at a kind of worker: how many of their executions,
-- and the seconds these take. Each runs one when its virtual time comes, which moves on by its run length
-- over its weight, until it has none left. C.rivals_max of them, evenly spread, are looked at; the others are
-- taken to be like them. O(C.rivals_max * log n).

-- Seconds that a run of a tenant takes on the long average; before the first ended, that of the lane, or a guess.
local function average_of(average, lane)
  return tonumber(average) or tonumber(redis.call('HGET', K.clock, 'avg:' .. lane)) or C.first_estimate
end

-- `own_below`: the tenant itself stands in the ring below `v`.
local function rivals_before(lane, kind, tenant, v, own_below)
  local ring = ring_of(lane, kind)
  local below = redis.call('ZCOUNT', ring, '-inf', string.format('(%.17g', v))
  local looked, count, seconds = 0, 0, 0
  local samples = math.min(below, C.rivals_max)
  for i = 0, samples - 1 do
    local at = math.floor(i * below / samples)
    local rival = redis.call('ZRANGE', ring, at, at, 'WITHSCORES')
    if rival[1] and rival[1] ~= tenant then
      local s = redis.call('HMGET', K.tenant .. rival[1], 'q:' .. lane, 'avg')
      local length = average_of(s[2], lane)
      local step = length / limits_of(rival[1])
      local runs = math.min(tonumber(s[1]) or 0, math.ceil((v - tonumber(rival[2])) / math.max(step, 0.000001)))
      looked, count, seconds = looked + 1, count + runs, seconds + runs * length
    end
  end
  if looked == 0 then return 0, 0 end
  local others = below - (own_below and 1 or 0)
  return count / looked * others, seconds / looked * others
end
