--- What the user set, read from `vim.g.trainwreck_*` with defaults.
--- Nothing here starts anything; the values are read when the server starts.
local M = {}

M.defaults = {
  enable = true,
  cmd = { 'trainwreck', 'lsp' },
  inlay_hints = true,
  max_findings = 200,
  disabled_rules = {},
  gpu = '',
  task = 'all',
  gpus = 0,
  sequence_length = 0,
}

--- A Vim script user writes 0 and 1 where Lua has false and true.
local function truthy(value)
  return value ~= false and value ~= 0
end

--- The value of `vim.g.trainwreck_<name>`, or its default.
function M.get(name)
  local value = vim.g['trainwreck_' .. name]
  if value == nil or value == vim.NIL then
    return M.defaults[name]
  end
  return value
end

--- A switch, true or false.
function M.on(name)
  return truthy(M.get(name))
end

--- The command that starts the server, as a list. A plain string is the path of the binary.
function M.cmd()
  local cmd = M.get('cmd')
  if type(cmd) == 'string' then
    return { vim.fn.expand(cmd), 'lsp' }
  end
  return cmd
end

--- What the server is told at its start.
function M.init_options()
  local rules = M.get('disabled_rules')
  return {
    maxFindings = M.get('max_findings'),
    -- An empty table that went through Vim script may travel as a JSON object; {} is a list.
    rules = { disabled = #rules > 0 and rules or {} },
    inlayHints = { enabled = M.on('inlay_hints') },
    gpu = M.get('gpu'),
    task = M.get('task'),
    gpus = M.get('gpus'),
    sequenceLength = M.get('sequence_length'),
  }
end

return M
