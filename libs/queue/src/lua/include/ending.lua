--- @include later
-- Live events and the one ending of an execution.

-- Appends one event (JSON) to the live stream, which expires with the record. Its first entry, `queued`, is
-- written together with the second: Redis allocates 4 KiB for every stream, more than everything else that a
-- waiting execution needs. Until then readers derive it from the record, with the same id (live-events.ts).
-- `enqueued`: `eq` of the record, or false when the stream exists (from `begin` on). `keep`: how many entries
-- to keep when they are large (event-buffer.ts). Default: C.event_entries.
local function append_event(id, event, enqueued, keep)
  if enqueued and redis.call('EXISTS', K.events .. id) == 0 then
    redis.call('XADD', K.events .. id, enqueued .. '-0', 'd', '{"type":"queued","at_ms":' .. enqueued .. '}')
  end
  redis.call('XADD', K.events .. id, 'MAXLEN', '~', keep or C.event_entries, '*', 'd', event)
end

-- Stores the result, deletes the request, closes the live stream and tells the waiters. `tail`: JSON of the
-- `ended` event after its `at_ms`. `callback`: `cb` of the record. `channel`: `wc` of the record, where the
-- client that put it waits. `enqueued`: as in append_event. Leaves some writes to write_now.
local function finish(id, tenant, result, tail, now, callback, channel, enqueued)
  redis.call('SET', K.result .. id, result, 'PX', C.ended_ttl)
  redis.call('HSET', K.record .. id, 's', 'ended', 'en', now)
  redis.call('HDEL', K.record .. id, 'req')
  redis.call('PEXPIRE', K.record .. id, C.ended_ttl)
  write_later('ZREM', K.live .. tenant, id)
  write_later('ZREM', K.all_live, id)
  if callback then redis.call('RPUSH', K.callbacks_due, id .. ' ' .. tenant .. ' ' .. callback) end
  append_event(id, string.format('{"type":"ended","at_ms":%.0f,', now) .. tail, enqueued)
  -- No event follows, so replace the stream by a copy. The copy takes the size of its content, not 4 KiB
  -- (measured: 824 instead of 4,728 bytes, 5 us).
  local copy = K.events .. id .. ':copy'
  redis.call('COPY', K.events .. id, copy)
  redis.call('RENAME', copy, K.events .. id)
  redis.call('PEXPIRE', K.events .. id, C.ended_ttl)
  local message = #result < C.inline_reply and id .. ' ' .. result or id
  if channel then redis.call('PUBLISH', channel, message) end
  local others = redis.call('SMEMBERS', K.waiters .. id)
  for _, other in ipairs(others) do
    if other ~= channel then redis.call('PUBLISH', other, message) end
  end
  if #others > 0 then redis.call('DEL', K.waiters .. id) end
end
