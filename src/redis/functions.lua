#!lua name=spinney1
-- What spinney asks of one key at a time. The layout of the values is that of crates/forest/src/shared/layout.rs.

local function put(key, value, life, time)
  if life == '' then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, life, time)
  end
end

-- before, whether nothing may be there as well, value, life, time
local function swap(keys, args)
  local there = redis.call('GET', keys[1])
  if there == false then
    if args[2] == '0' then return 0 end
  elseif there ~= args[1] and there ~= args[3] then
    return 0
  end
  put(keys[1], args[3], args[4], args[5])
  return 1
end

-- value
local function remove(keys, args)
  if redis.call('GET', keys[1]) ~= args[1] then return 0 end
  redis.call('DEL', keys[1])
  return 1
end

-- The confirmed root of a token, if it is there.
local function root(key, token)
  local value = redis.call('GET', key)
  if not value or #value < 20 or value:byte(1) == 0 or value:sub(2, 4) ~= token then return nil end
  -- One that is counted has 17 bytes more.
  if value:byte(1) == 2 and #value < 37 then return nil end
  return value
end

-- token, value, life, time; by the token and not by the value, because another one may have pinned it since it was
-- confirmed
local function confirm(keys, args)
  local there = redis.call('GET', keys[1])
  if not there or #there < 20 or there:sub(2, 4) ~= args[1] then return 0 end
  if there:byte(1) == 0 then put(keys[1], args[2], args[3], args[4]) end
  return 1
end

-- How many windows lie between two steps, of those that are told apart; and the children of a root in those of now and
-- before.
local function age(step, now, children, before)
  local windows = (math.floor(now / 64) - math.floor(step / 64)) % 1024
  if windows == 0 then return children, before end
  if windows == 1 then return 0, children end
  return 0, 0
end

-- token, uses, children, step, life, time, nonce, whether it is sent again; without a step its time stays
local function pin(keys, args)
  local value = root(keys[1], args[1])
  if not value then return false end
  local step, uses, nonce, children, before = struct.unpack('>HHHHH', value, 11)
  -- It was run, and its answer was lost.
  if args[8] == '1' and nonce == tonumber(args[7]) then return 1 end
  local now = tonumber(args[4]) or step
  local late = (now - step) % 65536
  local is_due = late > 0 and late < 32768
  if is_due then
    children, before = age(step, now, children, before)
    step = now
  end
  uses = math.min(65535, uses + tonumber(args[2]))
  children = math.min(65535, children + tonumber(args[3]))
  local numbers = struct.pack('>HHHHH', step, uses, tonumber(args[7]), children, before)
  value = value:sub(1, 10) .. numbers .. value:sub(21)
  if is_due then
    put(keys[1], value, args[5], args[6])
  else
    redis.call('SET', keys[1], value, 'KEEPTTL')
  end
  return 1
end

-- Whether a step of 32 bits is after another one.
local function is_later(now, step)
  local late = (now - step) % 4294967296
  return late > 0 and late < 2147483648
end

-- token, step, life, time; of a dated root, whose last two bytes are the upper half of its step
local function arrive(keys, args)
  local value = root(keys[1], args[1])
  if not value or #value < 22 then return 0 end
  local low, uses, nonce, children, before = struct.unpack('>HHHHH', value, 11)
  local step = struct.unpack('>H', value, #value - 1) * 65536 + low
  local now = tonumber(args[2])
  if not is_later(now, step) then return 1 end
  children, before = age(step, now, children, before)
  local numbers = struct.pack('>HHHHH', now % 65536, uses, nonce, children, before)
  local upper = struct.pack('>H', math.floor(now / 65536))
  put(keys[1], value:sub(1, 10) .. numbers .. value:sub(21, -3) .. upper, args[3], args[4])
  return 1
end

-- leaf, life, time; a dated one: root 8, token 3, step 4
local function touch(keys, args)
  local there, value = redis.call('GET', keys[1]), args[1]
  if there then
    if #there ~= 15 or there:sub(1, 11) ~= value:sub(1, 11) then return 0 end
    if not is_later(struct.unpack('>I4', value, 12), struct.unpack('>I4', there, 12)) then return 1 end
  end
  put(keys[1], value, args[2], args[3])
  return 1
end

-- root and token of its tree
local function remove_leaf(keys, args)
  local there = redis.call('GET', keys[1])
  if not there or #there >= 20 or there:sub(1, 11) ~= args[1] then return 0 end
  redis.call('DEL', keys[1])
  return 1
end

-- fingerprint 8 and step 1, life, time. A name whose step is over goes; of too many the one that came first.
local function enter(keys, args)
  local there, entry = redis.call('GET', keys[1]), args[1]
  local names = {}
  if there then
    local name, now = entry:sub(1, 8), entry:byte(9)
    for at = 1, #there - 8, 9 do
      local late = (now - there:byte(at + 8)) % 256
      if there:sub(at, at + 7) ~= name and (late < 68 or late > 191) then
        names[#names + 1] = there:sub(at, at + 8)
      end
    end
    if #names >= 1024 then table.remove(names, 1) end
  end
  names[#names + 1] = entry
  local time = args[3]
  if there and args[2] == 'PXAT' then
    time = math.max(tonumber(time), redis.call('PEXPIRETIME', keys[1]))
    time = string.format('%.0f', time)
  end
  put(keys[1], table.concat(names), args[2], time)
  return #names
end

-- milliseconds
local function advance(keys, args)
  -- Lua takes more for a number than this.
  local there, to = tonumber((redis.call('GET', keys[1]) or ''):match('^%-?%d+$')), tonumber(args[1])
  if there and there >= to then return there end
  redis.call('SET', keys[1], args[1])
  return to
end

-- token, uses
local function release(keys, args)
  local value = root(keys[1], args[1])
  if not value then return false end
  local uses = struct.unpack('>H', value, 13)
  -- There are more than can be counted.
  if uses == 65535 then return 0 end
  uses = uses - tonumber(args[2])
  if uses <= 0 then
    redis.call('DEL', keys[1])
    return -1
  end
  value = value:sub(1, 12) .. struct.pack('>H', uses) .. value:sub(15)
  redis.call('SET', keys[1], value, 'KEEPTTL')
  return 0
end

-- token, tally
local function count(keys, args)
  local value = root(keys[1], args[1])
  if not value then return false end
  local documents, titles, others, signs, last = 1, 0, 0, 0, 0
  local rest = value:sub(21)
  if value:byte(1) == 2 then
    documents, titles, others, signs, last = struct.unpack('<I4I4I4BI4', value, 21)
    rest = value:sub(38)
  end
  local more, more_titles, more_others, more_signs, more_last = struct.unpack('<I4I4I4BI4', args[2])
  documents = math.min(4294967295, documents + more)
  -- Its numbers have signs.
  titles = bit.bor(titles, more_titles) % 4294967296
  others = bit.bor(others, more_others) % 4294967296
  if more_signs > 0 and (signs == 0 or last ~= more_last) then
    signs, last = math.min(8, signs + more_signs), more_last
  end
  local tally = struct.pack('<I4I4I4BI4', documents, titles, others, signs, last)
  redis.call('SET', keys[1], '\2' .. value:sub(2, 20) .. tally .. rest, 'KEEPTTL')
  return false
end

-- the first 16 bytes of what the process knows; gives what is there if it is another one, and '' if nothing is
local function since(keys, args)
  local head = redis.call('GETRANGE', keys[1], 0, 15)
  if head == args[1] then return false end
  if head == '' then return '' end
  return redis.call('GET', keys[1])
end

-- the first 16 bytes of what has to be there, or '' where nothing may be; value
local function turn(keys, args)
  local head = redis.call('GETRANGE', keys[1], 0, 15)
  if head == args[2]:sub(1, 16) then return 1 end
  if head ~= args[1] then return 0 end
  redis.call('SET', keys[1], args[2])
  return 1
end

-- process, what it obeys, for how many milliseconds it is there; each has a line with both and when that is over, in
-- the order in which they came
local function tell(keys, args)
  local time, life = redis.call('TIME'), tonumber(args[3])
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local own = args[1] .. ' ' .. args[2] .. ' ' .. string.format('%.0f', now + life) .. '\n'
  local lines, first, least = {}, nil, tonumber(args[2])
  for process, obeys, over in (redis.call('GET', keys[1]) or ''):gmatch('(%x+) (%d+) (%d+)\n') do
    if process == args[1] then
      lines[#lines + 1] = own
      first = first or process
      own = ''
    elseif tonumber(over) > now then
      lines[#lines + 1] = process .. ' ' .. obeys .. ' ' .. over .. '\n'
      first = first or process
      least = math.min(least, tonumber(obeys))
    end
  end
  lines[#lines + 1] = own
  first = first or args[1]
  redis.call('SET', keys[1], table.concat(lines), 'PX', 2 * life)
  return (first == args[1] and '1 ' or '0 ') .. string.format('%.0f', least)
end

-- name, identity, the number that it would have, how many there may be; gives its number, and what it is of, or nothing
-- if there are so many
local function enroll(keys, args)
  local known = redis.call('HMGET', keys[1], 'number:' .. args[1], 'identity:' .. args[1])
  if known[1] then return {tonumber(known[1]), known[2]} end
  local number, most = tonumber(args[3]), tonumber(args[4])
  for _ = 1, most do
    if redis.call('HSETNX', keys[1], 'forest:' .. number, args[1]) == 1 then
      redis.call('HSET', keys[1], 'number:' .. args[1], number, 'identity:' .. args[1], args[2])
      return {number, args[2]}
    end
    number = (number + 1) % most
  end
  return false
end

-- name, the record of its fields as it is known, and as it is to be; gives the one that it has then
local function fields(keys, args)
  local field = 'fields:' .. args[1]
  local known = redis.call('HMGET', keys[1], field)[1] or ''
  if known ~= args[2] or args[2] == args[3] then return known end
  redis.call('HSET', keys[1], field, args[3])
  return args[3]
end

-- Whether lessons were removed from a log to make room.
local function is_trimmed(key)
  local info = redis.call('XINFO', 'STREAM', key)
  local length, added = 0, 0
  for at = 1, #info, 2 do
    if info[at] == 'length' then length = info[at + 1] end
    if info[at] == 'entries-added' then added = info[at + 1] end
  end
  return added > length
end

-- an id, how many; the lessons from that id on, the one at it, which is known, without its text, also where it has made
-- room for others: without it the log is another one
local function lessons(keys, args)
  local entries = redis.call('XRANGE', keys[1], args[1], '+', 'COUNT', args[2])
  if not entries[1] or args[1] == '0-0' then return entries end
  if entries[1][1] == args[1] then
    entries[1][2] = {}
  elseif is_trimmed(keys[1]) then
    table.insert(entries, 1, {args[1], {}})
  end
  return entries
end

local function register(name, callback, flags)
  redis.register_function{function_name = 'spinney1_' .. name, callback = callback, flags = flags}
end

register('swap', swap)
register('confirm', confirm)
register('pin', pin)
register('count', count)
register('arrive', arrive)
register('touch', touch)
register('enter', enter)
register('advance', advance)
register('turn', turn)
register('tell', tell)
-- What makes room is done where there is none. Whoever takes a placement back writes the root that is left, no larger
-- than it was. A process that connects again registers its forests before it does any of it.
register('enroll', enroll, {'allow-oom'})
register('fields', fields, {'allow-oom'})
register('remove', remove, {'allow-oom'})
register('release', release, {'allow-oom'})
register('remove_leaf', remove_leaf, {'allow-oom'})
register('since', since, {'no-writes'})
register('lessons', lessons, {'no-writes'})
