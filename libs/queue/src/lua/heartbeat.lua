-- Purpose: a worker reports that it is alive, drains or leaves. Updates the window, tells the worker which
--          executions it lost and which were cancelled, and releases the next ones.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 worker, 2 slots that it can fill (-1: it leaves, 0: it drains), 3 of them for interactive, 4 for
--          routine, 5 running, 6 lock milliseconds, 7 slots that it has, 8 its kind, 9 what workers of the
--          kind offer (include/kinds.lua), 10… pairs of id and fence that it runs
-- Returns  {'ok', '<id> <fence>' it no longer owns, '<id> <fence>' cancelled, milliseconds to the next due or
--          -1, executions assigned to it in interactive, in routine}
-- Invariants: the window is the sum over workers with a heartbeat younger than the lock time. Releases beyond
--          it are recalled. Executions assigned to a worker that drains or leaves return to the fair queue. A
--          heartbeat renews the locks of running executions that came from the worker's assigned queue.
-- Complexity: O(workers + running) plus the picks.
--- @include clock
--- @include pick

-- Rebuilds the rings after the known kinds changed. Every tenant with a backlog enters every ring at the
-- ring's clock, or keeps its later time there. The next pick removes it from rings where it does not belong.
-- That takes two commands per ring, however many tenants there are.
local function rings_rebuild()
  kinds_read, servers_read = nil, {}
  redis.call('DEL', K.servers)
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    for _, kind in ipairs(known_kinds()) do
      local ring = ring_of(lane, kind)
      local clock = clock_of(lane, kind)
      redis.call('ZUNIONSTORE', ring, 2, ring, K.queued .. lane, 'WEIGHTS', 1, clock, 'AGGREGATE', 'MAX')
      redis.call('ZDIFFSTORE', ring, 2, ring, K.parked)
    end
  end
end

-- Removes a kind without workers. Its virtual clock stays, because tenants keep the virtual time that they
-- used of it. If the clock started at zero, all other tenants would go first when the kind comes back.
local function kind_remove(kind)
  redis.call('ZREM', K.kinds, kind)
  redis.call('HDEL', K.offers, kind)
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    redis.call('DEL', ring_of(lane, kind))
    if kind ~= '' then marker_remove(lane, kind) end
  end
end

-- Computes the windows of the fleet and of each kind from the heartbeats younger than `fresh_ms`, and removes
-- kinds that no worker has reported for C.kind_patience. O(workers + kinds).
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
  local expired = redis.call('ZRANGEBYSCORE', K.kinds, '-inf', now - C.kind_patience)
  for _, kind in ipairs(expired) do
    if not sums[kind] then kind_remove(kind) end
  end
  if #expired > 0 then rings_rebuild() end
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
  redis.call('HSET', K.window, 'total', fleet.total, 'interactive', fleet.interactive,
    'routine', fleet.routine, unpack(fields))
end

-- At the first heartbeat after a time without any (the whole fleet restarted, or Redis was away), starts
-- C.kind_patience anew for all kinds. Otherwise the kind that comes back first would refuse executions that
-- the other kinds can run.
local function patience_restart(now, fresh_ms)
  if redis.call('ZCOUNT', K.beats, now - fresh_ms, '+inf') > 0 then return end
  for _, kind in ipairs(redis.call('ZRANGE', K.kinds, 0, -1)) do redis.call('ZADD', K.kinds, now, kind) end
end

-- Registers the kind that a worker reports. If no other worker has its former kind, that kind is removed at
-- once, because the worker itself reports that it can no longer serve it.
local function kind_report(kind, offers, before, now)
  local is_new = not redis.call('ZSCORE', K.kinds, kind)
  -- A fleet without workers has the kind ''. The first worker replaces it.
  if is_new and kind ~= '' and redis.call('ZCARD', K.kinds) == 0 then kind_remove('') end
  redis.call('ZADD', K.kinds, now, kind)
  if is_new then redis.call('HSET', K.offers, kind, offers) end
  local is_gone = before and before ~= kind
  if is_gone then
    for _, raw in ipairs(redis.call('HVALS', K.workers)) do
      if string.match(raw, '|([^|]*)$') == before then is_gone = false end
    end
    if is_gone then kind_remove(before) end
  end
  if is_new or is_gone then rings_rebuild() end
end

-- Recalls releases when the window of a kind shrinks (workers left, or are short of memory). The latest
-- releases that no worker has fetched return to the fair backlog, so that they and newer executions are
-- ordered together. They keep their charge (`pre`) until they are released again. A refund would set the
-- tenant's virtual time below the clock at which others entered meanwhile. O(C.pick_max * log n).
local function recall(lane, kind, surplus, now)
  surplus = math.min(C.pick_max, surplus)
  if surplus <= 0 then return end
  for _, id in ipairs(redis.call('ZREVRANGE', K.out .. lane, 0, C.pick_max - 1)) do
    local x = redis.call('HMGET', K.record .. id, 's', 'rel', 't', 'a', 'sc', 'est', 'k')
    if x[7] == kind and x[1] == 'released' and job_withdraw(lane, job_of(id, x[2])) then
      redis.call('HSET', K.record .. id, 's', 'queued', 'pre', x[6])
      redis.call('ZREM', K.out .. lane, id)
      count_out(lane, kind, -1)
      redis.call('HINCRBY', K.tenant .. x[3], 'n', -1)
      redis.call('HINCRBY', K.tenant .. x[3], 'n:' .. lane .. ':' .. kind, -1)
      backlog_push(lane, x[3], x[4], id, tonumber(x[5]), now, true)
      ring_enter_lanes(x[3])
      surplus = surplus - 1
      if surplus == 0 then return end
    end
  end
end

-- Recalls at every kind, including removed kinds.
local function recall_surplus(now)
  local kinds = {}
  for _, kind in ipairs(known_kinds()) do kinds[kind] = true end
  for _, field in ipairs(redis.call('HKEYS', K.outs)) do kinds[string.match(field, ':(.*)$')] = true end
  for kind in pairs(kinds) do
    local interactive, total = window_of(kind, 'interactive')
    local routine, out = window_of(kind, 'routine'), out_at(kind)
    local for_routine = math.min(out.routine, math.ceil(total / 4))
    recall('interactive', kind, out.interactive - math.min(interactive, total - for_routine), now)
    recall('routine', kind, out.routine - math.min(routine, total), now)
  end
end

local now, worker, kind = now_ms(), ARGV[1], ARGV[8]
local known = redis.call('HGET', K.workers, worker)
if ARGV[2] == '-1' then
  local is_empty = unassign_all(worker)
  if is_empty then redis.call('ZREM', K.beats, worker) else redis.call('ZADD', K.beats, 0, worker) end
  redis.call('HDEL', K.workers, worker)
else
  patience_restart(now, tonumber(ARGV[6]))
  redis.call('ZADD', K.beats, now, worker)
  local fields = { ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], kind }
  redis.call('HSET', K.workers, worker, table.concat(fields, '|'))
  kind_report(kind, ARGV[9], known and string.match(known, '|([^|]*)$'), now)
  if ARGV[2] == '0' then unassign_all(worker) end
end
recount_window(now, tonumber(ARGV[6]))
recall_surplus(now)
local lost, cancelled = {}, {}
for i = 10, #ARGV, 2 do
  local x = redis.call('HMGET', K.record .. ARGV[i], 's', 'f', 'can', 'dw')
  if x[1] ~= 'running' or x[2] ~= ARGV[i + 1] then
    lost[#lost + 1] = ARGV[i] .. ' ' .. ARGV[i + 1]
  else
    if x[3] then cancelled[#cancelled + 1] = ARGV[i] .. ' ' .. ARGV[i + 1] end
    if x[4] then redis.call('HSET', K.record .. ARGV[i], 'dw', now) end
  end
end
pick(now)
return { 'ok', lost, cancelled, next_due(now),
  redis.call('ZCARD', K.assigned .. 'interactive:' .. worker),
  redis.call('ZCARD', K.assigned .. 'routine:' .. worker) }
