"""A GPU that is none: each tensor is computed by the CPU, but is said to be on 'cuda' once it was moved there. As on a GPU, an operation on
tensors of two devices is refused, and NumPy is not given a tensor on 'cuda'; so a whole run shows whether it could run on a GPU."""
import contextlib
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map_only

from electra_nb.training.device import usual_device

gpu,cpu = torch.device('cuda', 0),torch.device('cpu')
mixes = 'copy_','__getitem__','__setitem__','__deepcopy__','_has_compatible_shallow_copy_type' # take tensors of two devices
casts = 'linear','matmul','__matmul__','bmm','einsum','scaled_dot_product_attention' # computed in 16 bits under `torch.autocast`

def place(x): return getattr(x, '_place', None) # 'cuda', 'cpu', or None where it is not known: gradients, and what other threads have made

def put(x, where):
    x._place = where
    return x

def kind(device): return None if device is None else torch.device(device).type

class PretendGPU(TorchFunctionMode):
    "Keep book of where tensors are."
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs,name = dict(kwargs or {}),getattr(func, '__name__', '')
        if name in ('__get__','__set__'): return self.attribute(func, args)
        if name in ('to','cuda','cpu'): return self.move(name, *args, **kwargs)
        if kind(kwargs.get('device')) in ('cuda','cpu'):
            where,kwargs['device'] = kind(kwargs['device']),'cpu'
            return tree_map_only(torch.Tensor, lambda o: put(o, where), func(*args, **kwargs))
        return self.call(func, name, args, kwargs)

    def attribute(self, func, args):
        "Read or set an attribute of a tensor, such as its device."
        name,x = getattr(func.__self__, '__name__', ''),args[0]
        if place(x)=='cuda' and name in ('device','is_cuda','is_cpu'): return dict(device=gpu, is_cuda=True, is_cpu=False)[name]
        out = func(*args)
        if name=='data' and len(args)>1 and torch.is_tensor(args[1]): put(x, place(args[1]))
        if torch.is_tensor(out) and place(out) is None: put(out, place(x))
        return out

    def move(self, name, x, *args, device=None, dtype=None, copy=False, **kwargs):
        "`to`, `cuda` and `cpu`."
        if name!='to': device = dict(cuda=gpu, cpu=cpu)[name]
        for o in args:
            if isinstance(o, torch.dtype): dtype = o
            elif torch.is_tensor(o): device,dtype = place(o) or 'cpu',o.dtype
            elif isinstance(o, (str,torch.device)): device = o
        where = kind(device) or place(x)
        if where=='meta': return torch.Tensor.to(x, device)
        out = torch.Tensor.to(x, x.dtype if dtype is None else dtype, copy=copy or (where or 'cpu')!=(place(x) or 'cpu'))
        return out if out is x else put(out, where)

    def call(self, func, name, args, kwargs):
        "An operation; what it makes is where its inputs are."
        tensors = [o for o in tree_flatten((args,kwargs))[0] if torch.is_tensor(o)]
        places = {place(o) for o in tensors if o.dim() or place(o)=='cuda'} # a number of the host may be used on a GPU
        if {'cuda','cpu'}<=places and name not in mixes:
            raise RuntimeError(f"{name}: all tensors must be on the same device, not {[(place(o),tuple(o.shape)) for o in tensors]}")
        if 'cuda' in places and name in ('numpy','__array__'): raise TypeError('NumPy cannot have a tensor on cuda: use cpu()')
        if name in casts and torch.is_autocast_enabled('cuda'):
            half = torch.get_autocast_dtype('cuda')
            def cast(o): return torch.Tensor.to(o, half) if o.dtype==torch.float32 else o
            args,kwargs = tree_map_only(torch.Tensor, cast, (args,kwargs))
        out = func(*args, **kwargs)
        where = 'cuda' if 'cuda' in places else 'cpu' if 'cpu' in places or not tensors else None
        for o in tree_flatten(out)[0]:
            if torch.is_tensor(o) and place(o) is None and where: put(o, where)
        return out

nothing = 'set_rng_state','set_device','synchronize','manual_seed_all','empty_cache','reset_peak_memory_stats'
answers = dict(is_available=True, is_initialized=True, is_bf16_supported=True, device_count=1, current_device=0,
    get_device_name='Pretended', get_device_capability=(7,0), get_rng_state=torch.zeros(16, dtype=torch.uint8),
    mem_get_info=(2**36,2**36), memory_allocated=0, max_memory_allocated=0, **dict.fromkeys(nothing))

@contextlib.contextmanager
def pretend_gpu():
    "`torch.cuda` as if there were a GPU."
    def patch(obj, name, value): return mock.patch.object(obj, name, lambda *args, **kwargs: value)
    with contextlib.ExitStack() as stack:
        for name,value in answers.items(): stack.enter_context(patch(torch.cuda, name, value))
        for name in dir(torch.optim.Optimizer): # its name depends on PyTorch's version
            if name.endswith('_graph_capture_health_check'): stack.enter_context(patch(torch.optim.Optimizer, name, None))
        stack.enter_context(mock.patch.object(torch.Tensor, 'pin_memory', lambda self: self))
        stack.callback(usual_device.cache_clear)
        usual_device.cache_clear()
        yield stack.enter_context(PretendGPU())
