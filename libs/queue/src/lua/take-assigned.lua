-- Purpose: a worker with a free slot takes the next execution that was assigned to it, because it has the
--          sandbox of its session.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 worker, 2 lane, 3 how:
--            'fair'   if its turn has come in virtual time, or no other work is ready
--            'yield'  only if no other work is ready, because the worker's last one was assigned, too
--            'force'  in any case, because other work had its share
--          4 kind of the worker
-- Returns  {'taken', …as take.lua} with id, release and how many stay assigned last | {'later'} other work
--          is due first | {'none'}
-- Invariants: takes a slot of the tenant once and charges it by the same estimate as a release. If the
--          tenant is parked or at its concurrency limit, its execution returns to the fair backlog. The
--          execution has no BullMQ job: field `dw` of its record is its lock, which heartbeat.lua renews and
--          sweep.lua checks.
-- Complexity: O(log n), times at most C.promote_max for those that return to the backlog.
--- @include clock
--- @include slots
--- @include own
--- @include bullmq
local worker, lane, how, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now, queue = now_ms(), K.assigned .. lane .. ':' .. worker
for _ = 1, C.promote_max do
  local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local id, tag = head[1], tonumber(head[2])
  if not id then return { 'none' } end
  local key = K.record .. id
  local x = redis.call('HMGET', key, 't', 'a', 'sc', 'pre')
  local tenant = x[1]
  local state = redis.call('HMGET', K.tenant .. tenant, 'n', 'park', 'mean', 'vt:' .. lane .. ':' .. kind)
  local weight, concurrency = limits_of(tenant)
  if state[2] or (tonumber(state[1]) or 0) >= concurrency then
    unassign(lane, tenant, id, worker)
    backlog_insert(lane, tenant, x[2], id, tonumber(x[3]), true)
  else
    local clock = clock_of(lane, kind)
    local waits = how == 'yield' or how == 'fair' and tag > clock
    if waits and job_first(lane, kind) then return { 'later' } end
    unassign(lane, tenant, id, worker)
    wait_ends(lane, tenant, id)
    local estimate = estimate_of(state[3], lane)
    local in_ring = redis.call('ZSCORE', ring_of(lane, kind), tenant)
    -- A tenant outside the ring may have an old virtual time. Raise it to the clock (or to the execution's
    -- score in the assigned queue, if that is lower), because waiting must earn no credit.
    local v = tonumber(in_ring) or math.max(tonumber(state[4]) or 0, math.min(tag, clock))
    if not in_ring then redis.call('HSET', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind, v) end
    charge(lane, tenant, kind, (estimate - (tonumber(x[4]) or 0)) / weight)
    if x[4] then redis.call('HDEL', key, 'pre') end
    if v > clock then redis.call('HSET', K.clock, 'v:' .. lane .. ':' .. kind, v) end
    slot_take(lane, tenant, id, kind, concurrency, estimate, now)
    local release = redis.call('HINCRBY', key, 'rel', 1)
    local reply = own(id, read_for_take(id), worker, kind, now, true)
    reply[#reply + 1] = id
    reply[#reply + 1] = release
    reply[#reply + 1] = redis.call('ZCARD', queue)
    return reply
  end
end
return { 'later' }
