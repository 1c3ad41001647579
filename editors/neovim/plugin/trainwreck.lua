-- Start-up: file types, then the language server. Settings: |trainwreck-settings|.
if vim.g.loaded_trainwreck then
  return
end
vim.g.loaded_trainwreck = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.notify_once('trainwreck: Neovim 0.11 or newer is needed.', vim.log.levels.WARN)
  return
end

if not require('trainwreck.settings').on('enable') then
  return
end

require('trainwreck.filetype').add()

local group = vim.api.nvim_create_augroup('trainwreck', {})

vim.api.nvim_create_autocmd('LspAttach', {
  group = group,
  desc = 'Show the inlay hints of trainwreck',
  callback = function(event)
    require('trainwreck').on_attach(event.data.client_id, event.buf)
  end,
})

vim.api.nvim_create_autocmd('FileType', {
  group = group,
  pattern = 'log',
  desc = 'Say when the trainwreck binary is missing',
  callback = function()
    require('trainwreck').warn_without_binary()
  end,
})

vim.lsp.enable('trainwreck')

-- Loaded late, by a plugin manager: the files that are open already have no filetype yet.
if vim.v.vim_did_enter == 1 then
  require('trainwreck.filetype').detect_open()
end
