--- @include ring
-- The share of a tenant that has no concurrency of its own. While its runs are short, or it leaves room, it
-- may have every slot: others come to theirs within a run. A tenant of long runs, or of which no run has
-- ended yet, leaves a quarter of the slots to others, of the fleet and of each lane at each kind of worker.
-- Below four slots there is no quarter to leave.

-- How many executions a tenant may have out in a window; `mean` is that of its last runs, seconds.
local function share_of(tenant, mean, window)
  mean = tonumber(mean)
  if has_own_concurrency(tenant) or mean and mean < C.long_run then return math.huge end
  local slots = math.floor(window / C.window_factor)
  return slots - math.floor(slots / 4)
end

local function fleet_window() return tonumber(redis.call('HGET', K.window, 'total')) or 0 end

-- `out` executions of the tenant have slots, `out_here` of them in this lane at this kind.
local function has_its_share(lane, kind, tenant, out, out_here, mean)
  local here = window_of(kind, lane)
  return out >= share_of(tenant, mean, fleet_window()) or out_here >= share_of(tenant, mean, here)
end
