-- Purpose: a worker with a free slot takes the next execution out of its hand (sessions whose sandbox it has).
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 worker, 2 lane, 3 how: 'fair'   when its turn has come in virtual time, or nothing else is ready
--                                    'yield' only when nothing else is ready (its last one came from the hand, too)
--                                    'force' whatever else is ready (the others had their share)
--          4 kind of the worker
-- Returns  {'taken', …as take.lua} with id and release behind it | {'later'} other work is due first | {'none'}
-- Invariants: the slot of the tenant is taken and charged here, once, with the same estimate as at a release. A
--          tenant at its concurrency, or parked, gets nothing: its execution goes back to the fair backlog. No BullMQ
--          job carries what is taken here: its lock is `dw` of the record (heartbeat.lua renews, sweep.lua breaks it).
-- Complexity: O(log n), times C.promote_max at most for those that go back.
--- @include clock
--- @include slots
--- @include own
--- @include bullmq
local worker, lane, how, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now, hand = now_ms(), K.handed .. lane .. ':' .. worker
for _ = 1, C.promote_max do
  local head = redis.call('ZRANGE', hand, 0, 0, 'WITHSCORES')
  local id, tag = head[1], tonumber(head[2])
  if not id then return { 'none' } end
  local key = K.record .. id
  local x = redis.call('HMGET', key, 't', 'a', 'sc', 'pre')
  local tenant = x[1]
  local state = redis.call('HMGET', K.tenant .. tenant, 'n', 'park', 'mean', 'vt:' .. lane .. ':' .. kind)
  local weight, concurrency = limits_of(tenant)
  if state[2] or (tonumber(state[1]) or 0) >= concurrency then
    hand_leave(lane, tenant, id, worker)
    backlog_place(lane, tenant, x[2], id, tonumber(x[3]), true)
  else
    local clock = clock_of(lane, kind)
    if how ~= 'force' and (how == 'yield' or tag > clock) and job_first(lane, kind) then return { 'later' } end
    hand_leave(lane, tenant, id, worker)
    wait_ends(lane, tenant, id)
    local estimate = estimate_of(state[3], lane)
    local in_ring = redis.call('ZSCORE', ring_of(lane, kind), tenant)
    -- Outside of the ring its virtual time may be old: idling earns nothing.
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
    return reply
  end
end
return { 'later' }
