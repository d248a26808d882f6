-- pause: holds back what is due, or lets it go again. What is claimed already is not touched.
--
-- KEYS  1 paused
-- ARGV  1 '1' to hold back, '0' to let go
-- Returns 1.

if ARGV[1] == '1' then
  redis.call('SET', KEYS[1], 'by an operator')
else
  redis.call('DEL', KEYS[1])
end
return 1
