"""What goes wrong before a batch exists: data sets, collation, workers.

Most failures of these classes are told by the frames (:mod:`firstfault.faults.stage`): whatever a data set's code raises is
a dataset_error. The rules here are for texts without frames.
"""

from firstfault.faults.fault import Fault, Rule

COLLATE = Fault(
    name="collate",
    family="data",
    title="the samples of a batch can't be put together",
    first_check="Compare shapes, dtypes, keys and None among the samples of this batch; one differs from the others.",
    avoid="Don't drop the batch or set batch_size=1: find the sample that differs, and decide what it should be.",
    also=("dataset_error", "shape_mismatch"),
    tell_apart="firstfault shrink names the sample that can't stand beside the others.",
    rules=(
        Rule(
            pattern=r"stack expects each tensor to be equal size|Sizes of tensors must match except in dimension|[Ee]xpected Tensor as element|inconsistent tensor sizes?|input array dimensions|each element in list|must match|has no attribute|KeyError|resize storage",
            through=r"/_utils/(?:data/)?_?collate\.py|[\\/]collate\.py|\b(?:default_collate|default_convert|collate_fn|collate_tensor_fn)\b",
            source="torch/utils/data/_utils/collate.py, over ATen's messages",
            examples=(
                '  File "/opt/conda/lib/python3.8/site-packages/torch/utils/data/_utils/collate.py", line 55, in default_collate\n    return torch.stack(batch, 0, out=out)\nRuntimeError: stack expects each tensor to be equal size, but got [3, 512, 384] at entry 0 and [3, 512, 512] at entry 2',
                '  File "/usr/lib/python3.6/site-packages/torch/utils/data/dataloader.py", line 187, in default_collate\n    return [default_collate(samples) for samples in transposed]\n  File "/usr/lib/python3.6/site-packages/torch/utils/data/dataloader.py", line 164, in default_collate\n    return torch.stack(batch, 0, out=out)\nRuntimeError: invalid argument 0: Sizes of tensors must match except in dimension 0. Got 333 and 500 in dimension 2 at /pytorch/aten/src/TH/generic/THTensor.cpp:616',
            ),
        ),
        Rule(
            pattern=r"Trying to resize storage that is not resizable",
            source="ATen/native/Resize.h, met in torch/utils/data/_utils/collate.py: workers stack into shared memory",
            examples=(
                "RuntimeError: Trying to resize storage that is not resizable",
                '  File "/v/lib/python3.9/site-packages/torch/utils/data/_utils/collate.py", line 141, in default_collate\n    out = elem.new(storage).resize_(len(batch), *list(elem.size()))\nRuntimeError: Trying to resize storage that is not resizable',
            ),
        ),
        Rule(
            pattern=r"each element in list of batch should be of equal size|default_collate: batch must contain|batch must contain tensors, numbers|all tensors in batch|Found a datatype .* in the batch",
            source="torch/utils/data/_utils/collate.py",
            examples=(
                "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'PIL.Image.Image'>",
                "RuntimeError: each element in list of batch should be of equal size",
                "TypeError: batch must contain tensors, numbers, dicts or lists; found <class 'NoneType'>",
            ),
        ),
        Rule(
            pattern=r"Unable to create tensor, you should probably activate truncation and/or padding",
            source="transformers/tokenization_utils_base.py",
            examples=(
                "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length. Perhaps your features (`labels` in this case) have excessive nesting (inputs type `list` where type `int` is expected).",
                "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length.",
            ),
        ),
    ),
)

DATASET_ERROR = Fault(
    name="dataset_error",
    family="data",
    title="the data set or a transform failed on a sample",
    first_check="Fetch the named sample alone: dataset[index].",
    avoid="Don't return None or another sample instead: the count of what was trained on would silently change.",
    also=("collate", "host_memory"),
    tell_apart="If the sample fails alone every time, it is the sample; if only now and then, a random transform.",
    rules=(
        Rule(
            of="type",
            pattern=r"UnidentifiedImageError$|DecompressionBomb\w*$|LibsndfileError$|AudioDecodeError$|BadZipFile$",
            source="Pillow, soundfile, zipfile: readers of samples",
            unless=r"pytorch_model|\.(?:pth?|ckpt|bin|safetensors)\b",
            examples=(
                "PIL.UnidentifiedImageError: cannot identify image file '/data/train/n0231/img_1172.JPEG'",
                "soundfile.LibsndfileError: Error opening 'clips/utt_0412.flac': Format not recognised.",
            ),
        ),
        Rule(
            pattern=r"[Ii]mage file is truncated|broken data stream when reading image file|cannot identify image file|Corrupt JPEG data: .*[Ee]rror|Required crop size .* is larger than (?:the )?input image size|empty range for randrange|(?:Failed|Unable|Error) (?:to (?:open|read|load|decode)|(?:opening|reading|loading|decoding)) .*\.(?:jpe?g|png|tiff?|bmp|wav|flac|mp3|mp4|npy|npz|nii(?:\.gz)?|h5|mat|dcm)\b|\(-215:Assertion failed\) !(?:_src|ssize)\.empty\(\)",
            source="Pillow, torchvision/transforms, OpenCV, and other readers of samples",
            examples=(
                "OSError: image file is truncated (44 bytes not processed)",
                "ValueError: Required crop size (224, 224) is larger than input image size (180, 320)",
                "cv2.error: OpenCV(4.8.0) /io/opencv/modules/imgproc/src/color.cpp:182: error: (-215:Assertion failed) !_src.empty() in function 'cvtColor'",
            ),
        ),
    ),
)

DATALOADER_WORKER = Fault(
    name="dataloader_worker",
    family="process",
    title="a DataLoader worker died, did not answer in time, or could not be started",
    first_check="Run the same loader with num_workers=0: the error that the worker could not send then shows.",
    avoid="Don't just set num_workers=0 for good, and don't take the last printed line for the cause.",
    also=("host_memory", "dataset_error"),
    tell_apart="The signal tells: Bus error is shared memory, Killed is the kernel's memory killer, Segmentation fault is a library.",
    late=4,
    rules=(
        Rule(
            pattern=r"DataLoader worker \(pid(?:\(s\))?:? ?[\d, ]+\) (?:is killed by signal|exited unexpectedly)|DataLoader worker .*(?:exited unexpectedly|is killed by signal)",
            unless=r"killed by signal: (?:Bus error|Killed)|out of shared memory",
            source="torch/utils/data/_utils/signal_handling.py, dataloader.py",
            examples=(
                "RuntimeError: DataLoader worker (pid(s) 8812, 9124) exited unexpectedly",
                "RuntimeError: DataLoader worker (pid 31337) is killed by signal: Segmentation fault.",
                "RuntimeError: DataLoader worker (pid 5519) is killed by signal: Aborted.",
            ),
        ),
        Rule(
            pattern=r"DataLoader timed out after|Pin memory thread exited unexpectedly|Pin memory thread (?:is not alive|died)",
            source="torch/utils/data/dataloader.py",
            examples=(
                "RuntimeError: DataLoader timed out after 120 seconds",
                "RuntimeError: Pin memory thread exited unexpectedly",
            ),
        ),
        Rule(
            pattern=r"An attempt has been made to start a new process before the|Can't pickle (?:local object|<\w+|\w+ objects)|Can't get local object|cannot pickle '[\w.]+' object|can't pickle [\w.]+ objects|h5py objects cannot be pickled|Can't get attribute '\w+' on <module '__(?:mp_)?main__'",
            through=r"dataloader\.py|[\\/]multiprocessing[\\/]|popen_spawn",
            source="multiprocessing/reduction.py, spawn.py, under torch/utils/data/dataloader.py",
            examples=(
                '  File "C:\\Anaconda3\\lib\\site-packages\\torch\\utils\\data\\dataloader.py", line 721, in __init__\n    w.start()\n  File "C:\\Anaconda3\\lib\\multiprocessing\\reduction.py", line 60, in dump\n    ForkingPickler(file, protocol).dump(obj)\nAttributeError: Can\'t pickle local object \'build.<locals>.<lambda>\'',
                '  File "/usr/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1042, in __init__\n    w.start()\n  File "/usr/lib/python3.10/multiprocessing/popen_spawn_posix.py", line 47, in _launch\n    reduction.dump(process_obj, fp)\nTypeError: cannot pickle \'_io.TextIOWrapper\' object',
            ),
        ),
        Rule(
            pattern=r"Broken pipe|pipe has been ended|Ran out of input|pickle data was truncated",
            types=r"BrokenPipeError|EOFError|OSError|(?:_pickle\.)?UnpicklingError",
            through=r"dataloader\.py|popen_spawn|multiprocessing[\\/]spawn\.py",
            unless=r"checkpoint",
            source="multiprocessing/popen_spawn_win32.py, spawn.py: a worker that died while it was started",
            examples=(
                '  File "C:\\Users\\a\\Anaconda3\\lib\\multiprocessing\\popen_spawn_win32.py", line 65, in __init__\n    reduction.dump(process_obj, to_child)\n  File "C:\\Users\\a\\Anaconda3\\lib\\multiprocessing\\reduction.py", line 60, in dump\n    ForkingPickler(file, protocol).dump(obj)\nBrokenPipeError: [Errno 32] Broken pipe',
                '  File "D:\\py\\lib\\multiprocessing\\spawn.py", line 126, in _main\n    self = reduction.pickle.load(from_parent)\nEOFError: Ran out of input',
            ),
        ),
        Rule(
            pattern=r"An attempt has been made to start a new process before the",
            source="multiprocessing/spawn.py: workers on Windows and macOS import the script again",
            examples=(
                "RuntimeError:\n        An attempt has been made to start a new process before the\n        current process has finished its bootstrapping phase.\n\n        This probably means that you are not using fork to start your\n        child processes and you have forgotten to use the proper idiom\n        in the main module:",
                "    raise RuntimeError('''\nRuntimeError: \n        An attempt has been made to start a new process before the current process has finished its bootstrapping phase.",
            ),
        ),
    ),
)

CLASSES = (COLLATE, DATASET_ERROR, DATALOADER_WORKER)
