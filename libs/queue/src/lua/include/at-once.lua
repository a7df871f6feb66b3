--- @include pick
-- An execution without a session that finds room in its lane, and nobody waiting anywhere, goes through
-- neither backlog nor ring. Only where all workers are of one kind: else its kind is to be found.

-- What such a call read and left, for the next call of the same script.
local seen

-- A lane, and how many the kinds that can serve a need have room for.
local function read_lane(lane, need)
  local free = 0
  for _, kind in ipairs(known_kinds()) do
    if serves(kind, need) then
      local window, total = window_of(kind, lane)
      local out = out_at(kind)
      free = free + math.max(0, math.min(total - out.interactive - out.routine, window - out[lane]))
    end
  end
  return { lane = lane, kind = known_kinds()[1], tenants = {}, free = free }
end

-- What entering the ring and being picked from it at once would do to an execution. `state` is that of its tenant (waiting_of). Returns
-- the estimate that it is charged with.
local function release_at_once(around, tenant, id, state, weight, now)
  local lane, kind, key = around.lane, around.kind, K.tenant .. tenant
  local clock = around.clock or clock_of(lane, kind)
  local v, estimate = math.max(clock, state.v), estimate_of(state.mean, lane)
  state.outstanding, state.v = state.outstanding + 1, v + estimate / weight
  set_later(key, 'n', state.outstanding)
  state.here = state.here + 1
  set_later(key, 'n:' .. lane .. ':' .. kind, state.here)
  set_later(key, 'vt:' .. lane .. ':' .. kind, state.v)
  -- It has nothing that waits: with none out it was idle.
  if state.outstanding == 1 then redis.call('PERSIST', key) end
  if v > clock then set_later(K.clock, 'v:' .. lane .. ':' .. kind, v) end
  write_later('ZADD', K.out .. lane, now, id)
  count_out(lane, kind, 1)
  job_add(lane, id, 1, kind, math.min(state.outstanding, C.priority_max), now, true)
  around.clock, around.free, around.tenants[tenant] = v, around.free - 1, state
  return estimate
end
