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

--- Asks for the lenses of a buffer anew.
local function refresh_lenses(bufnr)
  vim.lsp.codelens.refresh({ bufnr = bufnr })
end

--- Shows the lenses over model configs. Neovim 0.12 keeps them fresh by itself; before, they are asked for when the text
--- has changed.
local function show_lenses(bufnr)
  if vim.lsp.codelens.enable then
    vim.lsp.codelens.enable(true, { bufnr = bufnr })
    return
  end
  refresh_lenses(bufnr)
  local group = vim.api.nvim_create_augroup('trainwreck_lenses', { clear = false })
  vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  vim.api.nvim_create_autocmd({ 'BufEnter', 'InsertLeave', 'TextChanged' }, {
    group = group,
    buffer = bufnr,
    desc = 'Show the lenses of trainwreck',
    callback = function(event)
      if vim.lsp.get_clients({ bufnr = event.buf, name = 'trainwreck' })[1] then
        refresh_lenses(event.buf)
      end
    end,
  })
end

--- The server's request to ask for lenses anew: another GPU or task was chosen.
function M.on_lens_refresh(_, _, context)
  local client = vim.lsp.get_client_by_id(context.client_id)
  for bufnr in pairs(client and client.attached_buffers or {}) do
    if vim.bo[bufnr].filetype:match('^json') then
      refresh_lenses(bufnr)
    end
  end
  return vim.NIL
end

--- Shows the server's inlay hints, and the lenses of configs, in a buffer that it has attached to.
function M.on_attach(client_id, bufnr)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client or client.name ~= 'trainwreck' then
    return
  end
  if vim.bo[bufnr].filetype:match('^json') and client:supports_method('textDocument/codeLens', bufnr) then
    show_lenses(bufnr)
  end
  if not settings.on('inlay_hints') then
    return
  end
  if client:supports_method('textDocument/inlayHint', bufnr) then
    vim.lsp.inlay_hint.enable(true, { bufnr = bufnr })
  end
end

return M
