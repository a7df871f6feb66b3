--- @include ring
--- @include bullmq
-- The known kinds changed: every tenant with a backlog enters every ring at its clock, and the next look at
-- it takes it out where it does not belong. Two commands per ring however many tenants there are.
local function rings_rebuild()
  kinds_read, servers_read = nil, {}
  redis.call('DEL', K.servers)
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    for _, kind in ipairs(known_kinds()) do
      local ring = ring_of(lane, kind)
      redis.call('ZUNIONSTORE', ring, 2, ring, K.queued .. lane, 'WEIGHTS', 1, clock_of(lane, kind), 'AGGREGATE', 'MAX')
      redis.call('ZDIFFSTORE', ring, 2, ring, K.parked)
    end
  end
end

-- Nothing is served at a kind that no worker is of any more. Its clock goes on: the times that tenants used
-- of it rest in their hashes, and from zero all others would go before them when the kind is back.
local function kind_forget(kind)
  redis.call('ZREM', K.kinds, kind)
  redis.call('HDEL', K.offers, kind)
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    redis.call('DEL', ring_of(lane, kind))
    if kind ~= '' then marker_remove(lane, kind) end
  end
end

-- Recounts the windows of the fleet and of each kind from the heartbeats that are fresher than `fresh_ms`,
-- and forgets kinds of which nobody was seen for C.kind_patience. O(workers + kinds).
local function recount_window(now, fresh_ms)
  local sums = {}
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', K.beats, now - fresh_ms, '+inf')) do
    local raw = redis.call('HGET', K.workers, worker)
    if raw then
      local t, i, r, kind = string.match(raw, '^(%d+)|(%d+)|(%d+)|%d+|%d+|%d+|(.*)$')
      local sum = sums[kind] or { total = 0, interactive = 0, routine = 0 }
      sum.total, sum.interactive, sum.routine = sum.total + t, sum.interactive + i, sum.routine + r
      sums[kind] = sum
    end
  end
  local forgotten = redis.call('ZRANGEBYSCORE', K.kinds, '-inf', now - C.kind_patience)
  for _, kind in ipairs(forgotten) do
    if not sums[kind] then kind_forget(kind) end
  end
  if #forgotten > 0 then rings_rebuild() end
  local fleet, fields = { total = 0, interactive = 0, routine = 0 }, {}
  for kind, sum in pairs(sums) do
    for what, slots in pairs(sum) do
      local window = math.ceil(slots * C.window_factor)
      fleet[what] = fleet[what] + window
      fields[#fields + 1] = kind .. ':' .. what
      fields[#fields + 1] = window
    end
  end
  redis.call('DEL', K.window)
  redis.call('HSET', K.window, 'total', fleet.total, 'interactive', fleet.interactive, 'routine', fleet.routine, unpack(fields))
end

-- A worker of a kind is here. The kind that it was of before goes at once when no other worker is: it says
-- itself that it cannot serve any more what it could.
local function kind_seen(kind, offers, before, now)
  local is_new = not redis.call('ZSCORE', K.kinds, kind)
  -- The kind of a fleet without workers goes with the first that comes.
  if is_new and kind ~= '' and redis.call('ZCARD', K.kinds) == 0 then kind_forget('') end
  redis.call('ZADD', K.kinds, now, kind)
  if is_new then redis.call('HSET', K.offers, kind, offers) end
  local is_gone = before and before ~= kind
  if is_gone then
    for _, raw in ipairs(redis.call('HVALS', K.workers)) do
      if string.match(raw, '|([^|]*)$') == before then is_gone = false end
    end
    if is_gone then kind_forget(before) end
  end
  if is_new or is_gone then rings_rebuild() end
end
