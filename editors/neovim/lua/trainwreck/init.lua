--- What the plugin does beside the entry in `lsp/trainwreck.lua`.
local settings = require('trainwreck.settings')

local M = {}

--- Whether the configured server can be started.
function M.binary_found()
  local config = vim.lsp.config.trainwreck
  local cmd = config and config.cmd
  -- A function starts the server by its own means (a socket, a container).
  return type(cmd) ~= 'table' or vim.fn.executable(cmd[1]) == 1
end

--- Says once that the binary is missing: Neovim writes that into its log file only.
function M.warn_without_binary()
  if M.binary_found() then
    return
  end
  vim.notify_once(
    ('trainwreck: cannot run "%s". Install it (cargo install --locked --path trainwreck), or set '):format(
      vim.lsp.config.trainwreck.cmd[1]
    ) .. 'vim.g.trainwreck_cmd to its path. :checkhealth trainwreck tells more.',
    vim.log.levels.WARN
  )
end

--- Shows the server's inlay hints in a buffer that it has attached to.
function M.on_attach(client_id, bufnr)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client or client.name ~= 'trainwreck' or not settings.on('inlay_hints') then
    return
  end
  if client:supports_method('textDocument/inlayHint', bufnr) then
    vim.lsp.inlay_hint.enable(true, { bufnr = bufnr })
  end
end

return M
