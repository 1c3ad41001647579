--- `:checkhealth trainwreck`
local M = {}

local health = vim.health

--- The version line of the binary, or nil and what went wrong.
local function version_of(binary)
  local ok, job = pcall(vim.system, { binary, '--version' }, { text = true, timeout = 5000 })
  if not ok then
    return nil, tostring(job)
  end
  local result = job:wait()
  if result.code ~= 0 then
    return nil, ('exit code %d: %s'):format(result.code, vim.trim(result.stderr or ''))
  end
  return vim.trim(result.stdout or '')
end

local function check_neovim()
  health.start('Neovim')
  local version = tostring(vim.version())
  if vim.fn.has('nvim-0.11') == 1 then
    health.ok(version)
  else
    health.error(version .. ' is too old', 'Install Neovim 0.11 or newer.')
  end
end

local function check_binary(config)
  health.start('Server')
  if type(config.cmd) ~= 'table' then
    health.info('cmd is a function: it is not checked')
    return
  end
  local binary = config.cmd[1]
  if vim.fn.executable(binary) == 0 then
    health.error(('"%s" is not executable'):format(binary), {
      'Install it: cargo install --locked --path trainwreck',
      'Or set vim.g.trainwreck_cmd to the path of the binary before the plugin loads.',
    })
    return
  end
  health.ok('binary: ' .. vim.fn.exepath(binary))
  local version, problem = version_of(binary)
  if version then
    health.ok('version: ' .. version)
  else
    health.error(('"%s --version" failed: %s'):format(binary, problem), 'Install the binary anew.')
  end
end

local function check_clients()
  health.start('Clients')
  if not require('trainwreck.settings').on('enable') then
    health.warn('vim.g.trainwreck_enable is false: the plugin does nothing')
    return
  end
  -- The first releases of 0.11 cannot tell.
  if vim.lsp.is_enabled and not vim.lsp.is_enabled('trainwreck') then
    health.warn('the server is not enabled', "Run :lua vim.lsp.enable('trainwreck')")
    return
  end
  local clients = vim.lsp.get_clients({ name = 'trainwreck' })
  if #clients == 0 then
    health.warn('no client runs', 'Open a log, then look again. `:set filetype?` must say log.')
    return
  end
  for _, client in ipairs(clients) do
    local names = {}
    for bufnr in pairs(client.attached_buffers) do
      names[#names + 1] = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(bufnr), ':~:.')
    end
    table.sort(names)
    health.ok(
      ('client %d, positions in %s, attached to: %s'):format(
        client.id,
        client.offset_encoding,
        #names > 0 and table.concat(names, ', ') or 'no buffer'
      )
    )
  end
end

function M.check()
  check_neovim()
  if vim.fn.has('nvim-0.11') == 0 then
    return
  end
  local config = vim.lsp.config.trainwreck
  if not config then
    health.error('no configuration named trainwreck', 'Put editors/neovim on the runtimepath.')
    return
  end
  check_binary(config)
  check_clients()
end

return M
