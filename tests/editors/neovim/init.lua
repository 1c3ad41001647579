-- A user's init.lua: the client's folder on the runtimepath, the binary's path, nothing else.
vim.opt.runtimepath:append(vim.env.CLIENT_FOLDER)
vim.g.trainwreck_cmd = vim.env.SERVER

if vim.env.SCENARIO == 'disabled' then
  vim.g.trainwreck_enable = false
end

-- The test wants to know how the server ended, and sometimes offers one encoding only.
server_exits = {}
local config = {
  on_exit = function(code, signal)
    table.insert(server_exits, ('code %d, signal %d'):format(code, signal))
  end,
}
if vim.env.ENCODING ~= 'any' then
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.general.positionEncodings = { vim.env.ENCODING }
  config.capabilities = capabilities
end
vim.lsp.config('trainwreck', config)
