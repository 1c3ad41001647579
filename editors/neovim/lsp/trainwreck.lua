--- The server's entry for |vim.lsp.config|. Neovim reads this file when the server is enabled;
--- `vim.lsp.config('trainwreck', { ... })` in a user's configuration is laid over it.
local settings = require('trainwreck.settings')

return {
  cmd = settings.cmd(),
  -- The server says nothing about a JSON file that is neither a log nor a model config.
  filetypes = { 'log', 'text', 'json', 'jsonc' },
  root_markers = { '.trainwreck', '.git' },
  -- Prose is `text` too: only texts that are named like a run's output get a server.
  root_dir = function(bufnr, on_dir)
    local name = vim.api.nvim_buf_get_name(bufnr)
    if vim.bo[bufnr].filetype ~= 'text' or require('trainwreck.filetype').names_output(name) then
      on_dir(nil) -- Neovim goes on with root_markers.
    end
  end,
  init_options = settings.init_options(),
  -- Neovim 0.11 knows lenses, and not the server's wish to be asked for them again.
  capabilities = not vim.lsp.codelens.enable and { workspace = { codeLens = { refreshSupport = true } } } or nil,
  handlers = not vim.lsp.codelens.enable and {
    ['workspace/codeLens/refresh'] = function(...)
      return require('trainwreck').on_lens_refresh(...)
    end,
  } or nil,
}
