--- @include ring
-- The share of a tenant that has no concurrency of its own. While its runs are short, or it leaves room, it may have every slot: others
-- come to theirs within a run. A tenant of long runs, or of which no run has ended yet, leaves a quarter of the slots to others, of the
-- fleet and of each lane at each kind of worker. Below four slots there is no quarter to leave.
local function share_of_slots(window)
  local slots = math.floor(window / C.window_factor)
  return slots - math.floor(slots / 4)
end

-- `out` executions of the tenant have slots, `out_here` of them in this lane at this kind; `mean` is that of its last runs, seconds.
local function has_its_share(lane, kind, tenant, out, out_here, mean)
  if has_own_concurrency(tenant) then return false end
  mean = tonumber(mean)
  if mean and mean < C.long_run then return false end
  local here = window_of(kind, lane)
  local fleet = tonumber(redis.call('HGET', K.window, 'total')) or 0
  return out >= share_of_slots(fleet) or out_here >= share_of_slots(here)
end
