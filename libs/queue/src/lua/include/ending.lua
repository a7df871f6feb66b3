--- @include later
-- Live events and the one ending of an execution.

-- Appends one event (JSON) to the live stream. The stream lives as long as the record. It begins with `queued`, which is
-- written along with the second event: Redis sets 4 KiB aside for every stream, more than all else that an execution
-- needs while it waits. Until then readers make it of the record, under the same id (live-events.ts).
-- `enqueued`: `eq` of the record; false when the stream stands, as it does from `begin` on. `keep`: fewer entries than usual, where
-- they are large (stream-room.ts).
local function append_event(id, event, enqueued, keep)
  if enqueued and redis.call('EXISTS', K.events .. id) == 0 then
    redis.call('XADD', K.events .. id, enqueued .. '-0', 'd', '{"type":"queued","at_ms":' .. enqueued .. '}')
  end
  redis.call('XADD', K.events .. id, 'MAXLEN', '~', keep or C.event_entries, '*', 'd', event)
end

-- Makes the result visible, lets the request go, closes the live stream and tells the waiters. `tail` is the JSON of the `ended` event
-- after its `at_ms`, `callback` is `cb` of the record, `channel` is `wc` of it: where the client listens that put it and waits. `enqueued`
-- as of append_event. Some of it is written by write_now.
local function finish(id, tenant, result, tail, now, callback, channel, enqueued)
  redis.call('SET', K.result .. id, result, 'PX', C.ended_ttl)
  redis.call('HSET', K.record .. id, 's', 'ended', 'en', now)
  redis.call('HDEL', K.record .. id, 'req')
  redis.call('PEXPIRE', K.record .. id, C.ended_ttl)
  write_later('ZREM', K.live .. tenant, id)
  write_later('ZREM', K.all_live, id)
  if callback then redis.call('RPUSH', K.callbacks_due, id .. ' ' .. tenant .. ' ' .. callback) end
  append_event(id, string.format('{"type":"ended","at_ms":%.0f,', now) .. tail, enqueued)
  -- Nothing is appended any more: a copy has the size of what is in it, not the 4 KiB that Redis sets aside (measured: 824 of
  -- 4,728 bytes, for 5 us).
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
